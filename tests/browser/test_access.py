"""Who comes in, and what they may."""

from typing import Any

from playwright.sync_api import expect

from mainspring.dashboard import Identity
from tests.browser.conftest import Opening, Sites
from tests.browser.site import OPERATOR, VIEWER, Site, shop, walk


def test_a_token_lets_in_and_a_wrong_one_does_not(site: Site, visit: Opening, told: list[str]) -> None:
    page = visit(site, "/messages", token=None)

    page.get_by_label("Token").fill("not-the-token-of-anybody")
    with page.expect_console_message(lambda said: "401" in said.text):  # the browser itself reports it, perhaps late
        page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    told.clear()
    page.get_by_label("Token").fill(OPERATOR)
    page.get_by_role("button", name="Log in").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Messages")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Token")).to_be_visible()


def test_the_link_with_a_token_lets_in_and_does_not_keep_it(site: Site, visit: Opening) -> None:
    page = visit(site)

    assert OPERATOR not in page.url
    kept = "JSON.stringify([location.href, localStorage, sessionStorage, document.cookie])"
    assert OPERATOR not in page.evaluate(kept)


def test_the_dashboard_of_a_database_offers_no_new_schedule_and_no_freeze(sites: Sites, visit: Opening) -> None:
    page = visit(sites(shop("memory://"), database_only=True), "/schedules")

    expect(page.get_by_role("button", name="Pause").first).to_be_visible()
    assert not {"New schedule", "Freeze all"} & set(page.get_by_role("main").get_by_role("button").all_inner_texts())


def test_a_viewer_is_offered_nothing_to_change_and_refused_when_trying(
    site: Site, visit: Opening, told: list[str]
) -> None:
    page = visit(site, "/dead", token=VIEWER)
    expect(page.get_by_text("read-only")).to_be_visible()

    for path in ("/dead", "/messages?state=dead", "/consumers", "/schedules", "/leases", "/workers", "/fanouts"):
        walk(page, path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        offered = page.get_by_role("main").get_by_role("button").all_inner_texts()
        assert not {"Revive", "Discard", "Pause", "Run now", "Release", "Drain", "Edit", "Freeze all"} & set(offered)

    asked = """async () => {
        const me = await (await fetch("/api/session")).json();
        const headers = {"Content-Type": "application/json", "X-Mainspring-Csrf": me.csrf};
        const body = JSON.stringify({group: "take_order"});
        return (await fetch("/api/consumers/pause", {method: "POST", headers, body})).status;
    }"""
    assert page.evaluate(asked) == 403
    told.clear()  # the browser itself reports the 403


def test_after_many_wrong_tokens_a_right_one_lets_in(site: Site, visit: Opening, told: list[str]) -> None:
    page = visit(site, "/audit", token=None)
    for number in range(6):
        page.get_by_label("Token").fill(f"wrong token {number}")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("button", name="Log in")).to_be_enabled()
        expect(page.get_by_role("alert")).to_have_text("wrong token: ask the operators of this dashboard for one")
    told.clear()  # the browser itself reports every 401

    page.get_by_label("Token").fill(OPERATOR)
    page.get_by_role("button", name="Log in").click()

    row = page.get_by_role("row").filter(has_text="operator (dashboard)")
    expect(row).to_contain_text("log in")
    expect(row).to_contain_text("from 127.0.0.1")
    failed = page.get_by_role("row").filter(has_text="log in failed")
    expect(failed).to_contain_text("unknown")
    expect(failed).to_contain_text("the token is wrong, from 127.0.0.1")


def test_a_token_in_the_address_is_not_kept_where_there_is_no_login(sites: Sites, visit: Opening) -> None:
    async def authenticate(_request: Any) -> Identity | None:
        return None

    site = sites(shop("memory://"), tokens=None, authenticate=authenticate)
    page = visit(site, f"/login#token={OPERATOR}", token=None)

    expect(page.get_by_text("controls access to it")).to_be_visible()
    assert OPERATOR not in page.url
