"""The page of one consumer, and the ways that lead to it and away from it."""

from playwright.sync_api import Page, expect

from tests.browser.conftest import Opening, Sites
from tests.browser.site import VIEWER, Site, furnish, shop, walk

PATH = "/consumers/view?group=take_order"


def _facts(page: Page, title: str) -> str:
    return page.locator("section.card", has=page.get_by_role("heading", name=title, exact=True)).inner_text()


def test_it_says_how_it_works_in_words(site: Site, visit: Opening) -> None:
    page = visit(site, PATH)

    expect(page.get_by_role("heading", level=1)).to_have_text("take_order")
    told = _facts(page, "Options")
    assert "up to 4 at once in each worker" in told
    assert "retried after fixed delays" in told
    assert "on the event loop" in told
    assert "orders.placed" in _facts(page, "Declaration")
    for name in ("Throughput", "Failures", "Due to start", "Run time"):
        expect(page.get_by_role("main").get_by_role("heading", name=name, exact=True)).to_be_visible()
    expect(page.locator("ms-chart svg")).to_have_count(4)


def test_what_it_failed_of_leads_to_the_messages(site: Site, visit: Opening) -> None:
    page = visit(site, PATH)
    causes = page.locator("section.card", has_text="Causes of its dead letters").locator("li")
    expect(causes).to_have_count(2)
    expect(page.locator("section.card", has_text="Latest failures").locator("li")).to_have_count(3)

    causes.filter(has_text="declined").get_by_role("link", name="Show").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Messages")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("the card was declined")


def test_its_messages_are_found_by_state(site: Site, visit: Opening) -> None:
    page = visit(site, PATH)

    page.locator("section.card", has_text="Its messages").get_by_role("link", name="scheduled").click()

    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("order:5")
    assert "state=scheduled" in page.url
    assert "group=take_order" in page.url


def test_it_is_paused_and_resumed(site: Site, visit: Opening) -> None:
    page = visit(site, PATH)

    page.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("stock-taking")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator(".note")).to_contain_text("stock-taking")
    page.get_by_role("button", name="Resume").click()

    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    expect(page.locator(".note")).to_have_count(0)


def test_the_window_of_time_stands_in_the_address(site: Site, visit: Opening) -> None:
    page = visit(site, PATH)
    page.get_by_role("button", name="24 hours").click()
    expect(page.get_by_role("button", name="24 hours")).to_have_attribute("aria-pressed", "true")
    assert "window=24h" in page.url

    page.reload()

    expect(page.get_by_role("button", name="24 hours")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("ms-chart svg")).to_have_count(4)


def test_every_place_that_names_it_leads_to_it(site: Site, visit: Opening) -> None:
    page = visit(site)
    dead = site.do(site.app.dead.list())[0].message_id

    for path in ("/", "/consumers", "/dead", f"/messages/{dead}"):
        walk(page, path)
        page.get_by_role("main").get_by_role("link", name="take_order", exact=True).first.click()
        expect(page.get_by_text("Options")).to_be_visible()
        assert "/consumers/view?group=take_order" in page.url


def test_a_viewer_may_look_and_not_pause(site: Site, visit: Opening) -> None:
    page = visit(site, PATH, token=VIEWER)

    expect(page.get_by_text("Options")).to_be_visible()
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)


def test_one_that_no_code_declares_is_said_to_be_none(site: Site, visit: Opening) -> None:
    page = visit(site, "/consumers/view?group=nobody")

    expect(page.get_by_role("alert")).to_contain_text("no consumer 'nobody' is declared")
    expect(page.get_by_role("link", name="Its dead letters")).to_be_visible()


def test_it_follows_what_happens(sites: Sites, visit: Opening) -> None:
    site = sites(shop("memory://"), prefix="/ops")
    site.do(furnish(site.app))
    page = visit(site, PATH)
    expect(page.locator(".tile", has_text="Dead letters").locator(".figure")).to_have_text("3")

    site.do(site.app.publish("orders.placed", {"order": 9, "fail": "the shop is closed"}))

    expect(page.locator(".tile", has_text="Dead letters").locator(".figure")).to_have_text("4")
    expect(page.get_by_text("the shop is closed").first).to_be_visible()
