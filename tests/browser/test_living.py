"""Pages that follow what happens, and where they are in the address."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import Opening
from tests.browser.site import Site, shop


def test_what_is_published_is_seen_without_a_reload(site: Site, visit: Opening) -> None:
    page = visit(site, "/messages?topic=orders.placed&state=scheduled")
    expect(page.locator("tbody tr")).to_have_count(1)

    site.do(site.app.publish("orders.placed", {"order": 6}, delay="3h", key="order:6"))

    expect(page.get_by_text("order:6")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_the_overview_moves(site: Site, visit: Opening) -> None:
    page = visit(site)
    tile = page.locator(".tile", has_text="Dead letters").locator(".figure")
    expect(tile).to_have_text("3")

    site.do(site.app.publish("orders.placed", {"fail": "again"}))

    expect(tile).to_have_text("4")
    expect(page.get_by_role("navigation", name="Screens").get_by_text("4")).to_be_visible()
    page.get_by_role("button", name="2 hours").click()
    expect(page.get_by_role("button", name="2 hours")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("ms-chart rect").first).to_be_visible()


def test_a_hidden_tab_asks_for_nothing_and_goes_on_when_it_is_seen(site: Site, visit: Opening) -> None:
    page = visit(site)
    live = page.locator(".live")
    expect(live).to_have_text("live")
    hide = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
    turn = hide + " document.dispatchEvent(new Event('visibilitychange')); }"

    page.evaluate(turn, True)
    expect(live).to_have_text("paused")
    site.do(site.app.publish("orders.placed", {"fail": "again"}))
    page.evaluate(turn, False)

    expect(live).to_have_text("live")
    expect(page.locator(".tile", has_text="Dead letters").locator(".figure")).to_have_text("4")


def test_a_server_that_goes_is_missed(visit: Opening, told: list[str]) -> None:
    with Site(shop("memory://")) as gone:
        page = visit(gone)
        expect(page.locator(".live")).to_have_text("live")

    expect(page.locator(".live")).to_have_text("connection lost")
    page.close()  # it goes on trying
    told.clear()  # the browser itself reports the refused connections


def test_the_filter_lives_in_the_address(site: Site, visit: Opening) -> None:
    page = visit(site, "/messages")

    page.get_by_role("button", name="dead").click()
    page.get_by_label("Error contains").fill("no stock")

    expect(page).to_have_url(re.compile(r"/messages\?state=dead&error=no\+stock$"))
    expect(page.locator("tbody tr")).to_have_count(2)
    page.reload()
    expect(page.get_by_label("Error contains")).to_have_value("no stock")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_label("Payload contains").fill('order":3')
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("tbody tr")).to_have_count(3)


def test_going_back_goes_back(site: Site, visit: Opening) -> None:
    page = visit(site, "/messages?state=dead")
    page.get_by_role("link", name="orders.placed").first.click()
    expect(page.get_by_role("heading", name="Attempts")).to_be_visible()

    page.go_back()

    expect(page.get_by_role("heading", level=1)).to_have_text("Messages")
    expect(page.locator("tbody tr")).to_have_count(3)


def test_everything_is_reached_by_keys(site: Site, visit: Opening) -> None:
    page = visit(site)
    page.keyboard.press("g")
    page.keyboard.press("m")
    expect(page.get_by_role("heading", level=1)).to_have_text("Messages")
    expect(page.locator("tbody tr").first).to_be_visible()

    page.keyboard.press("/")
    expect(page.get_by_label("Consumer")).to_be_focused()
    page.keyboard.type("take_order")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("Consumer").blur()
    page.keyboard.press("j")
    expect(page.locator("tr.at")).to_have_count(1)
    page.keyboard.press("x")
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="Attempts")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog").get_by_text("Dead letters")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
