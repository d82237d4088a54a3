"""Rows that come and go under one's hands: what is chosen, shown and acted on stays what was meant."""

import re
from typing import Any

from playwright.sync_api import Page, expect

from mainspring import Mainspring
from tests.browser.conftest import Opening, Sites
from tests.browser.site import Site


def two_consumers() -> Mainspring:
    app = Mainspring("memory://", name="shop", preset="development", grace="100ms")

    @app.consumer("orders.placed", group="one")
    async def one(order: dict[str, Any]) -> None: ...

    @app.consumer("orders.placed", group="two")
    async def two(order: dict[str, Any]) -> None: ...

    return app


async def put_off(app: Mainspring, *numbers: int) -> None:
    for number in numbers:
        await app.publish("orders.placed", {"order": number}, delay="1h", key=f"order:{number:03}")


def _row(page: Page, group: str, number: int = 1) -> Any:
    return page.locator("tbody tr", has_text=group).filter(has_text=f"order:{number:03}")


def test_only_the_chosen_delivery_of_a_message_is_cancelled(sites: Sites, visit: Opening) -> None:
    site: Site = sites(two_consumers())
    site.do(put_off(site.app, 1))
    page = visit(site, "/messages?state=scheduled")

    _row(page, "two").get_by_label("Choose").check()
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel", exact=True).last.click()

    expect(page.get_by_text("1 delivery cancelled.")).to_be_visible()
    assert [each.group for each in site.do(site.app.messages.list("scheduled"))] == ["one"]


def test_what_is_unticked_of_everything_is_not_acted_on(sites: Sites, visit: Opening) -> None:
    site: Site = sites(two_consumers())
    site.do(put_off(site.app, 1, 2))
    page = visit(site, "/messages?state=scheduled&group=one")
    _row(page, "one", 1).get_by_label("Choose").check()
    page.get_by_role("button", name="Select all matches").click()
    expect(_row(page, "one", 2).get_by_label("Choose")).to_be_checked()

    _row(page, "one", 2).get_by_label("Choose").uncheck()

    expect(page.get_by_text("1 selected")).to_be_visible()
    expect(_row(page, "one", 2).get_by_label("Choose")).not_to_be_checked()
    expect(_row(page, "one", 1).get_by_label("Choose")).to_be_checked()


def test_everything_is_counted_before_it_is_done(sites: Sites, visit: Opening) -> None:
    site: Site = sites(two_consumers())
    site.do(put_off(site.app, *range(60)))
    page = visit(site, "/messages?state=scheduled&group=one")
    page.get_by_label("Select all on this page").check()
    page.get_by_role("button", name="Select all matches").click()

    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("60 deliveries")
    page.get_by_role("dialog").get_by_role("button", name="Cancel", exact=True).last.click()

    expect(page.get_by_text("60 deliveries cancelled.")).to_be_visible()
    assert {each.group for each in site.do(site.app.messages.list("scheduled"))} == {"two"}


def test_no_row_is_lost_between_the_live_page_and_the_older_ones(sites: Sites, visit: Opening) -> None:
    site: Site = sites(two_consumers())
    site.do(put_off(site.app, *range(70)))
    page = visit(site, "/messages?state=scheduled&group=one")
    expect(page.locator("tbody tr")).to_have_count(50)
    # Both at once: after an answer, the second would meet the row that stands there by then.
    page.get_by_role("button", name="More", exact=True).evaluate("more => { more.click(); more.click(); }")
    expect(page.locator("tbody tr")).to_have_count(70)

    site.do(put_off(site.app, *range(70, 80)))

    expect(page.locator("tbody tr")).to_have_count(80)
    keys = page.locator("tbody tr td .key").all_inner_texts()
    assert keys == [f"order:{number:03}" for number in reversed(range(80))]


def test_the_keys_stay_at_their_row_when_others_arrive(sites: Sites, visit: Opening) -> None:
    site: Site = sites(two_consumers())
    site.do(put_off(site.app, 1, 2))
    page = visit(site, "/messages?state=scheduled&group=one")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.keyboard.press("j")
    expect(page.locator("tr.at")).to_contain_text("order:002")

    site.do(put_off(site.app, 3))
    expect(page.locator("tbody tr")).to_have_count(3)
    page.keyboard.press("x")

    expect(page.locator("tr.chosen")).to_contain_text("order:002")


def test_numbers_are_kept_to_the_last_digit(site: Site, visit: Opening) -> None:
    receipt = site.do(site.app.publish("orders.placed", {"id": 9007199254740993, "fail": "too big"}))

    async def dead() -> bool:
        return len(await site.app.dead.list()) == 4

    site.until(dead)
    page = visit(site, f"/messages/{receipt.id}")
    expect(page.locator("ms-tree")).to_contain_text("9007199254740993")
    page.get_by_role("button", name="Copy and edit").click()
    box = page.get_by_role("dialog").get_by_label("Payload")
    box.fill(box.input_value().replace("too big", "still too big"))
    page.get_by_role("dialog").get_by_role("button", name="Publish").click()

    expect(page.locator("ms-tree")).to_contain_text("still too big")
    expect(page.locator("ms-tree")).to_contain_text("9007199254740993")


def test_a_copy_that_nobody_has_touched_keeps_what_is_hidden(site: Site, visit: Opening) -> None:
    page = visit(site, "/messages?state=dead&error=declined")
    page.get_by_role("link", name="orders.placed").click()
    before = page.url

    page.get_by_role("button", name="Copy and edit").click()
    page.get_by_role("dialog").get_by_role("button", name="Publish").click()

    expect(page).not_to_have_url(before)
    copied = site.do(site.app.messages.get(page.url.rpartition("/")[2]))
    assert copied is not None
    assert b"4000 1234" in copied.payload


def test_several_windows_do_not_keep_each_other_waiting(site: Site, visit: Opening) -> None:
    first = visit(site, "/workers")
    for _ in range(4):
        window = first.context.new_page()
        window.goto(f"{site.address}/dead")
        expect(window.get_by_text("3 deliveries of 2 causes")).to_be_visible()

    first.bring_to_front()
    first.get_by_role("button", name="Drain").click()
    first.get_by_role("dialog").get_by_role("button", name="Drain").click()

    expect(first.get_by_text(re.compile("draining|drain asked"))).to_be_visible()


def test_a_message_is_found_by_its_id(site: Site, visit: Opening) -> None:
    wanted = site.do(site.app.dead.list())[0].message_id
    page = visit(site, "/messages")

    page.get_by_label("Message id").fill(f" {wanted} ")

    expect(page.get_by_role("heading", name="Attempts")).to_be_visible()


def test_something_new_is_published(site: Site, visit: Opening) -> None:
    page = visit(site, "/messages")

    page.get_by_role("button", name="Publish").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Topic", exact=True).fill("parcels.packed")
    dialog.get_by_label("Payload").fill('{"parcel": 7')
    dialog.get_by_role("button", name="Publish").click()
    expect(dialog.get_by_role("alert")).to_contain_text("not JSON")
    dialog.get_by_label("Payload").fill('{"parcel": 7}')
    dialog.get_by_role("button", name="Publish").click()

    expect(page.locator(".timeline .done")).to_have_count(1)


def test_odd_addresses_are_said_to_be_nothing(site: Site, visit: Opening) -> None:
    page = visit(site)

    for path in ("constructor", "__proto__", "toString", "messages/a/b"):
        page.goto(f"{site.address}/{path}")
        expect(page.get_by_text("No such page.")).to_be_visible()
    page.goto(f"{site.address}/messages?foo=1")
    expect(page.locator("tbody tr").first).to_be_visible()


def test_an_old_link_says_that_its_token_is_no_longer_good(site: Site, visit: Opening, told: list[str]) -> None:
    page = visit(site, "/login#token=a-token-of-yesterday", token=None)

    expect(page.get_by_role("alert")).to_contain_text("no longer valid")
    told.clear()  # the browser itself reports the 401
