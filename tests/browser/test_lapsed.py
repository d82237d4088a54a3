"""What its holder died with is shown as what it is: lapsed, and not running."""

from playwright.sync_api import expect

from mainspring import Mainspring
from tests.browser.conftest import Opening, Sites
from tests.browser.site import Site, walk


async def _left_by_the_dead(app: Mainspring) -> None:
    queue = app.queue("billing", "invoices.due")
    await queue.declare()
    for number in range(3):
        await app.publish("invoices.due", {"invoice": number})
    await queue.claim(1, hold="1h")
    await queue.claim(2, hold="1ms")


def test_what_nobody_runs_any_more_is_shown_as_lapsed(sites: Sites, visit: Opening) -> None:
    site: Site = sites(Mainspring("memory://", name="shop"), worker=False)
    site.do(_left_by_the_dead(site.app))

    async def lapsed() -> bool:
        return len(await site.app.messages.list("lapsed")) == 2

    site.until(lapsed)

    page = visit(site)
    expect(page.get_by_text("2 lapsed, waiting to be taken over")).to_be_visible()
    walk(page, "/consumers")
    expect(page.get_by_role("link", name="2 lapsed")).to_be_visible()
    walk(page, "/messages?state=lapsed")
    expect(page.locator("tbody .state.lapsed")).to_have_count(2)
    walk(page, "/messages?state=running")
    expect(page.locator("tbody .state.running")).to_have_count(1)
    walk(page, f"/messages/{site.do(site.app.messages.list('lapsed'))[0].message_id}")
    expect(page.get_by_text("it waits to be taken over").first).to_be_visible()
