"""What is done to everything that matches: while it goes on, when it is over, and when others did it."""

from typing import Any

from playwright.sync_api import expect

from mainspring import Mainspring, intervals
from mainspring.model.search import Filter
from tests.browser.conftest import Opening, Sites
from tests.browser.site import VIEWER, Site


def test_what_was_done_is_told_also_after_a_reload(site: Site, visit: Opening) -> None:
    page = visit(site, "/dead")
    expect(page.locator(".cause")).to_have_count(2)
    expect(page.locator(".history")).to_have_count(0)

    page.get_by_role("button", name="Discard all").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard", exact=True).click()
    expect(page.get_by_text("3 deliveries discarded.")).to_be_visible()
    expect(page.locator(".history")).to_be_visible()
    page.reload()
    page.locator("summary", has_text="Bulk actions").click()

    line = page.locator(".history li")
    expect(line).to_have_count(1)
    for text in ("ended", "3 deliveries discarded", "state dead", "operator (dashboard)"):
        expect(line).to_contain_text(text)


def test_what_others_did_is_told_to_who_looks_at_messages(site: Site, visit: Opening) -> None:
    site.do(site.app.messages.apply("cancel", Filter("scheduled", group="take_order"), by="night shift"))
    page = visit(site, "/messages")

    page.locator("summary", has_text="Bulk actions").click()
    expect(page.locator(".history li")).to_contain_text("night shift")
    page.get_by_role("link", name="All bulk actions in the audit").click()

    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("night shift")


def test_what_goes_on_elsewhere_is_told_and_followed(site: Site, visit: Opening) -> None:
    controls = site.do(site.app._connection.storage("a test")).controls
    line = site.do(controls.note("revive", "state dead, group take_order", "ada", "500 revived; goes on"))
    page = visit(site, "/dead", token=VIEWER)

    expect(page.locator(".history li")).to_be_visible()
    expect(page.locator(".history li")).to_contain_text("It is running in another process")
    expect(page.locator(".bulkbar")).to_have_count(0)
    site.do(controls.amend(line, "ended"))

    expect(page.locator(".history li .state")).to_have_text("ended")


def two_tries() -> Mainspring:
    app = Mainspring("memory://", name="shop", preset="development", grace="100ms", idle_poll="50ms")

    @app.consumer("orders.placed", retry=intervals("1h"))
    async def take(order: dict[str, Any]) -> None:
        raise ValueError(f"no stock for {order['order']}")

    return app


def test_what_will_be_tried_again_has_a_tab_and_can_be_run_now(sites: Sites, visit: Opening) -> None:
    site = sites(two_tries())
    for number in (1, 2):
        site.do(site.app.publish("orders.placed", {"order": number}, key=f"order:{number}"))
    site.do(site.app.publish("orders.placed", {"order": 3}, delay="2h", key="order:3"))
    page = visit(site, "/messages")
    page.get_by_role("button", name="will retry").click()

    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("attempt 1 failed, to be retried")
    assert "state=retrying" in page.url
    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Select all matches").click()
    page.get_by_role("button", name="Run now", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Run now", exact=True).click()

    expect(page.get_by_text("2 deliveries due now.")).to_be_visible()
    expect(page.get_by_text("No deliveries to retry.")).to_be_visible()

    async def both_are_dead() -> bool:
        return len(await site.app.dead.list()) == 2

    site.until(both_are_dead)
