"""What an operator does, through the pages, and what becomes of it in the app."""

import re
from datetime import timedelta

from playwright.sync_api import Page, expect

from mainspring import every
from tests.browser.conftest import Opening
from tests.browser.site import VIEWER, Site


def _agree(page: Page, button: str, **typed: str) -> None:
    dialog = page.get_by_role("dialog")
    for label, text in typed.items():
        dialog.get_by_label(label).fill(text)
    dialog.get_by_role("button", name=button, exact=True).click()
    expect(dialog).to_have_count(0)


def test_one_dead_letter_is_revived(site: Site, visit: Opening) -> None:
    page = visit(site, "/messages?state=dead&error=declined")
    page.get_by_role("link", name="orders.placed").click()

    page.get_by_role("button", name="Revive", exact=True).click()

    expect(page.locator(".timeline .dead")).to_have_count(2)  # given up once more
    assert site.do(site.app.audit())[0].action == "revive"


def test_a_dead_letter_is_revived_with_another_payload(site: Site, visit: Opening) -> None:
    page = visit(site, "/messages?state=dead&error=order+2")
    page.get_by_role("link", name="orders.placed").click()

    page.get_by_role("button", name="Edit and revive").click()
    _agree(page, "Revive", Payload='{"order": 2, "say": "found one"}')

    async def taken() -> bool:
        rows = await site.app.messages.runs("take_order")
        return any(row.output == "found one" for row in rows)

    site.until(taken)


def test_everything_that_matches_is_revived_on_the_server(site: Site, visit: Opening) -> None:
    site.do(site.app.groups.pause("take_order"))
    page = visit(site, "/messages?state=dead&error=no+stock")
    page.get_by_label("Select all on this page").check()

    page.get_by_role("button", name="Select all matches").click()
    page.get_by_role("button", name="Revive", exact=True).click()
    _agree(page, "Revive")

    expect(page.get_by_text("2 deliveries revived.")).to_be_visible()
    assert len(site.do(site.app.dead.list())) == 1


def test_a_cause_is_discarded(site: Site, visit: Opening) -> None:
    page = visit(site, "/dead")

    page.locator(".cause", has_text="declined").get_by_role("button", name="Discard").click()
    _agree(page, "Discard")

    expect(page.locator(".cause")).to_have_count(1)
    assert {each.error for each in site.do(site.app.dead.list())} == {
        "Broken: no stock for order 2",
        "Broken: no stock for order 3",
    }


def test_a_message_is_cancelled(site: Site, visit: Opening) -> None:
    page = visit(site, "/messages?state=scheduled&key=order:5")
    page.get_by_role("link", name="orders.placed").click()

    page.get_by_role("button", name="Cancel", exact=True).click()
    _agree(page, "Cancel the message")

    expect(page.locator(".timeline .cancelled")).to_have_count(1)


def test_a_message_is_run_now(site: Site, visit: Opening) -> None:
    page = visit(site, "/messages?state=scheduled&key=order:5")
    page.get_by_role("link", name="orders.placed").click()

    page.get_by_role("button", name="Run now").click()

    expect(page.locator(".timeline .done")).to_have_count(1)


def test_a_copy_is_published(site: Site, visit: Opening) -> None:
    page = visit(site, "/messages?state=done&topic=parcels.packed")
    page.get_by_role("link", name="parcels.packed").click()
    before = page.url

    page.get_by_role("button", name="Copy and edit").click()
    _agree(page, "Publish", Payload='{"parcel": 99}', Key="copied")

    expect(page).not_to_have_url(before)
    expect(page.get_by_role("main").get_by_text("copied").first).to_be_visible()
    expect(page.locator("ms-tree")).to_contain_text("99")


def test_a_consumer_is_paused_and_resumed(site: Site, visit: Opening) -> None:
    page = visit(site, "/consumers")
    row = page.locator("tr", has_text="take_order")

    row.get_by_role("button", name="Pause").click()
    _agree(page, "Pause", Reason="stock-taking")
    expect(row.get_by_text("paused")).to_be_visible()
    group = next(each for each in site.do(site.app.groups.list()) if each.name == "take_order")
    assert group.pause_reason == "stock-taking"
    row.get_by_role("button", name="Resume").click()

    expect(row.get_by_role("button", name="Pause")).to_be_visible()


def test_a_schedule_is_triggered_paused_and_resumed(site: Site, visit: Opening) -> None:
    page = visit(site, "/schedules/view?name=nightly")
    expect(page.locator("tbody tr")).to_have_count(1)

    page.get_by_role("button", name="Run now").click()
    _agree(page, "Run now")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("button", name="Pause").click()
    _agree(page, "Pause", Reason="holidays")
    expect(page.get_by_text("holidays")).to_be_visible()
    page.get_by_role("button", name="Resume").click()

    expect(page.get_by_text("active")).to_be_visible()


def test_a_schedule_is_triggered_with_another_payload(site: Site, visit: Opening) -> None:
    site.do(site.app.schedules.put("parcels", every("1h"), "ship", {"parcel": 1}))
    page = visit(site, "/schedules/view?name=parcels")

    page.get_by_role("button", name="Run now").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("With another payload").click()
    dialog.get_by_label("Payload").fill('{"parcel": 9007199254740993,\n "to":}')
    expect(dialog.get_by_role("status")).to_have_text("Not JSON: line 2, column 7: a value is missing.")
    dialog.get_by_role("button", name="Run now").click()
    expect(dialog.get_by_role("alert")).to_contain_text("line 2, column 7")
    _agree(page, "Run now", Payload='{"parcel": 9007199254740993}')
    page.get_by_role("link", name="Its message").click()

    expect(page.locator("ms-tree")).to_contain_text("9007199254740993")
    expect(page.locator(".timeline .done")).to_have_count(1)


def test_a_rhythm_is_edited_with_a_look_ahead(site: Site, visit: Opening) -> None:
    page = visit(site, "/schedules/view?name=nightly")

    page.get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("At 02:30")).to_be_visible()
    dialog.get_by_label("Rhythm").fill("0 25 * * *")
    expect(dialog.get_by_role("alert")).to_contain_text("hour")
    dialog.get_by_label("Rhythm").fill("15 6 * * mon-fri")
    expect(dialog.locator("li")).to_have_count(10)
    expect(dialog.locator("li").first).to_contain_text("06:15")
    _agree(page, "Save")

    expect(page.get_by_text("15 6 * * mon-fri")).to_be_visible()
    expect(page.get_by_text("(edited)")).to_be_visible()
    view = site.do(site.app.schedules.get("nightly"))
    assert view is not None
    assert (view.rhythm, view.edited) == ("15 6 * * mon-fri", ("rhythm",))


def test_a_preview_says_what_daylight_saving_does(site: Site, visit: Opening) -> None:
    page = visit(site, "/schedules/view?name=nightly")

    page.get_by_role("button", name="Edit").click()
    page.get_by_role("dialog").get_by_label("Rhythm").fill("30 2 28 3 *")

    # 28 March 2027 is the day on which Berlin has no half past two.
    expect(page.get_by_role("dialog").locator("li .wrong").first).to_contain_text(re.compile("clocks", re.IGNORECASE))


def test_the_look_ahead_of_the_editor_honours_days_start_and_end(site: Site, visit: Opening) -> None:
    page = visit(site, "/schedules/view?name=nightly")

    page.get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Only on").fill("mon-fri")
    dialog.get_by_label("Not on").fill("2030-12-25")
    dialog.get_by_label("Not before").fill("2030-12-23T00:00")
    dialog.get_by_label("Not after").fill("2030-12-28T12:00")
    expect(dialog.locator("li")).to_have_count(4)
    expect(dialog.locator("ol")).to_contain_text("26 Dec 2030")
    expect(dialog.locator("ol")).not_to_contain_text("25 Dec 2030")
    dialog.get_by_text("Policies").click()
    dialog.get_by_label("While a run is unfinished").select_option("queue")
    dialog.get_by_label("Start later by up to").fill("5m")
    dialog.get_by_label("Priority").select_option("low")
    _agree(page, "Save")

    expect(page.get_by_text("mon-fri (edited)")).to_be_visible()
    expect(page.get_by_text("up to 5 min (edited)")).to_be_visible()
    view = site.do(site.app.schedules.get("nightly"))
    assert view is not None
    assert (view.workdays, view.holidays, view.overlap, view.priority) == (("mon-fri",), ("2030-12-25",), "queue", 3)
    page.get_by_role("button", name="Edit").click()
    dialog.get_by_label("Not on").fill("")
    dialog.get_by_label("Not after").fill("")
    expect(dialog.locator("li")).to_have_count(10)
    _agree(page, "Save")
    expect(page.get_by_text("none (edited)")).to_be_visible()
    view = site.do(site.app.schedules.get("nightly"))
    assert view is not None
    assert (view.holidays, view.end) == ((), None)


def test_a_schedule_is_created_and_deleted(site: Site, visit: Opening) -> None:
    page = visit(site, "/schedules")

    page.get_by_role("button", name="New schedule").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("weekly")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_have_text("Enter its consumer or topic.")
    dialog.get_by_label("Consumer").fill("ship")
    dialog.get_by_label("Rhythm").fill("0 9 * * mon")
    expect(dialog.locator("li")).to_have_count(10)
    dialog.locator("summary", has_text="Payload").click()
    _agree(page, "Create", Payload='{"parcel": 1}')
    expect(page.get_by_role("heading", level=1)).to_have_text("weekly")
    view = site.do(site.app.schedules.get("weekly"))
    assert view is not None
    assert (view.rhythm, view.group, view.origin) == ("0 9 * * mon", "ship", "api")
    page.get_by_role("button", name="Delete").click()
    _agree(page, "Delete")

    expect(page.get_by_role("heading", level=1)).to_have_text("Schedules")
    assert site.do(site.app.schedules.get("weekly")) is None


def test_a_schedule_is_created_for_one_time(site: Site, visit: Opening) -> None:
    page = visit(site, "/schedules")

    page.get_by_role("button", name="New schedule").click()
    page.get_by_role("dialog").get_by_label("When").select_option("once")
    page.get_by_role("dialog").locator("summary", has_text="Payload").click()
    page.get_by_role("dialog").get_by_label(re.compile("^At")).fill("2040-01-31T09:00")
    page.get_by_role("dialog").get_by_text("Runs", exact=True).click()
    page.get_by_role("dialog").get_by_label("Timeout").fill("90s")
    _agree(page, "Create", Name="trial", Consumer="ship", Payload='{"parcel": 1}')

    expect(page.get_by_role("heading", level=1)).to_have_text("trial")
    view = site.do(site.app.schedules.get("trial"))
    assert view is not None
    assert view.next_at is not None
    assert (view.next_at.year, view.timeout) == (2040, timedelta(seconds=90))


def test_how_its_runs_are_handled_is_edited(site: Site, visit: Opening) -> None:
    page = visit(site, "/schedules/view?name=nightly")

    page.get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Runs", exact=True).click()
    dialog.get_by_label("Retry").fill("5s, 1m")
    dialog.get_by_label("Fire").select_option("queue empty")
    dialog.get_by_label("Keep of its dead letters").select_option("all")
    dialog.get_by_label("Then run").fill("hourly")
    dialog.get_by_label("Key").fill("night")
    dialog.get_by_label("Headers").fill('{"tenant": "acme"')
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("alert")).to_contain_text("headers are not JSON")
    _agree(page, "Save", Headers='{"tenant": "acme"}')
    expect(page.get_by_text("all kept (edited)")).to_be_visible()
    altered = site.do(site.app.schedules.get("nightly"))
    page.get_by_role("button", name="Edit").click()
    dialog.get_by_text("Runs", exact=True).click()
    dialog.get_by_label("Keep of its dead letters").select_option("")
    _agree(page, "Save", Headers="", Key="", Retry="", **{"Then run": ""})
    cleared = site.do(site.app.schedules.get("nightly"))

    assert altered is not None
    assert cleared is not None
    assert (altered.only_if, altered.dead, altered.then, altered.key) == ("queue empty", "all", "hourly", "night")
    assert (dict(altered.headers), altered.retry is not None) == ({"tenant": "acme"}, True)
    assert (cleared.only_if, cleared.dead, cleared.then, cleared.key) == ("queue empty", None, None, None)
    assert (dict(cleared.headers), cleared.retry) == ({}, None)


def test_a_viewer_tries_an_expression(site: Site, visit: Opening) -> None:
    page = visit(site, "/schedules", token=VIEWER)
    expect(page.get_by_role("button", name="New schedule")).to_have_count(0)

    page.get_by_role("link", name="Try an expression").click()
    page.get_by_role("link", name="every 90s").click()
    expect(page.get_by_role("main").locator("ol li")).to_have_count(20)
    page.get_by_label("Rhythm").fill("0 25 * * *")
    expect(page.get_by_role("alert")).to_contain_text("hour")
    page.get_by_label("Rhythm").fill("0 9 * * *")
    page.get_by_label("Not on").fill("sat, sun")
    page.get_by_label("Zone").fill("Asia/Tokyo")
    expect(page.get_by_role("main").locator("ol")).to_contain_text("+09:00")
    page.reload()

    expect(page.get_by_role("main").locator("ol")).to_contain_text("+09:00")
    expect(page.get_by_role("main").locator("ol")).not_to_contain_text("Sat,")


def test_a_schedule_is_run_for_the_past(site: Site, visit: Opening) -> None:
    page = visit(site, "/schedules/view?name=nightly")

    page.get_by_role("button", name="Backfill").click()
    _agree(page, "Backfill", From="2026-03-01T00:00", To="2026-03-03T23:00")

    expect(page.get_by_text("3 occurrences published.")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(4)


def test_a_lease_is_released(site: Site, visit: Opening) -> None:
    page = visit(site, "/leases")

    page.locator("tr", has_text="price-feed").get_by_role("button", name="Release").click()
    _agree(page, "Release", Reason="its holder hangs")

    expect(page.locator("tr", has_text="price-feed").get_by_text("free")).to_be_visible()
    view = site.do(site.app.leases.get("price-feed"))
    assert view is not None
    assert view.state == "free"


def test_a_worker_is_drained_and_let_work_again(site: Site, visit: Opening) -> None:
    page = visit(site, "/workers")

    page.get_by_role("button", name="Drain").click()
    _agree(page, "Drain", Reason="to be replaced")
    expect(page.get_by_text("draining")).to_be_visible()
    page.get_by_role("button", name="Resume").click()

    expect(page.get_by_role("button", name="Drain")).to_be_visible()


def test_a_fan_out_is_planned_and_edited(site: Site, visit: Opening) -> None:
    page = visit(site, "/fanouts")
    page.get_by_role("button", name="Shards").click()
    expect(page.locator("tbody tr")).to_have_count(2)

    page.get_by_role("button", name="Edit").click()
    page.get_by_role("dialog").get_by_label("planned").uncheck()
    _agree(page, "Save")

    expect(page.get_by_text("disabled")).to_be_visible()


def test_all_schedules_are_frozen_and_thawed(site: Site, visit: Opening) -> None:
    page = visit(site, "/schedules")

    page.get_by_role("button", name="Freeze all").click()
    _agree(page, "Freeze", Reason="migration")
    expect(page.get_by_role("alert")).to_contain_text("migration")
    page.get_by_role("button", name="Thaw").click()

    expect(page.get_by_role("button", name="Freeze all")).to_be_visible()


def test_who_did_it_is_in_the_audit(site: Site, visit: Opening) -> None:
    page = visit(site, "/consumers")
    page.locator("tr", has_text="take_order").get_by_role("button", name="Pause").click()
    _agree(page, "Pause", Reason="stock-taking")

    page.goto(f"{site.address}/audit")

    row = page.locator("tr", has_text="take_order").first
    expect(row).to_contain_text("pause")
    expect(row).to_contain_text("(dashboard)")


def test_what_was_done_is_a_link_to_what_it_was_done_to(site: Site, visit: Opening) -> None:
    (dead, *_) = site.do(site.app.dead.list())
    site.do(site.app.messages.publish("orders.placed", {"order": 9}, copy_of=dead.message_id, by="ann"))
    site.do(site.app.schedules.pause("nightly", by="ann"))
    page = visit(site, "/audit?find=ann")

    expect(page.locator("tr", has_text="schedule pause").get_by_role("link", name="nightly")).to_be_visible()
    page.locator("tr", has_text="copy of").get_by_role("link").last.click()

    expect(page.locator(".crumb")).to_contain_text(str(dead.message_id))
