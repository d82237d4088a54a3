"""What is found and understood: messages by kind and operation, where a revived one went, the inbox, and joins."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from mainspring import Mainspring
from tests.browser.conftest import Opening, Sites
from tests.browser.site import VIEWER, Site


def test_messages_are_listed_with_id_kind_and_payload_and_filtered_by_kind(site: Site, visit: Opening) -> None:
    page = visit(site, "/messages?state=any")
    rows = page.locator("tbody tr")
    expect(rows.filter(has_text="delayed")).to_contain_text('{"order":5}')
    expect(rows.filter(has_text="recurring")).to_contain_text("nightly")
    expect(rows.filter(has_text="card was declined")).to_contain_text('"card_number":"•••"')

    page.get_by_label("Kind").select_option("delayed")

    expect(rows).to_have_count(1)
    assert "kind=delayed" in page.url
    rows.get_by_role("link", name=re.compile("^…")).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("orders.placed")


def test_all_messages_of_an_operation_are_one_click_away(site: Site, visit: Opening) -> None:
    page = visit(site, "/messages?state=done&topic=parcels.packed")
    page.get_by_role("link", name="parcels.packed").click()

    page.locator("dd a", has=page.locator("code")).click()

    expect(page.locator("tbody tr")).to_have_count(2)  # the order, and the parcel that it caused
    expect(page.get_by_label("Correlation id")).not_to_have_value("")


def test_a_viewer_finds_an_operation_too(site: Site, visit: Opening) -> None:
    (parcel,) = site.do(site.app.messages.search("done", topic="parcels.packed"))
    message = site.do(site.app.messages.get(parcel.message_id))
    assert message is not None

    page = visit(site, f"/messages?state=any&correlation_id={message.correlation_id}", token=VIEWER)

    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.get_by_label("Payload contains")).to_have_count(0)


def test_a_dead_letter_says_where_it_went_and_its_successor_where_it_came_from(site: Site, visit: Opening) -> None:
    page = visit(site, "/messages?state=dead&error=order+2")
    page.get_by_role("link", name="orders.placed").click()
    page.get_by_role("button", name="Edit and revive").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Payload").fill('{"order": 2, "say": "found one"}')
    dialog.get_by_role("button", name="Revive", exact=True).click()

    page.locator(".note", has_text="Revived with another payload as").get_by_role("link").click()

    expect(page.locator("ms-tree")).to_contain_text("found one")
    page.locator(".note", has_text="replaces the dead letter").get_by_role("link").click()
    expect(page.locator("ms-tree")).to_contain_text("no stock for order 2")


def test_the_inbox_is_searched_and_a_message_released(site: Site, visit: Opening) -> None:
    inbox = site.app.inbox
    site.do(inbox.failed(site.do(inbox.admit("evt-1", "bank", group="books")), error="no such account"))
    site.do(inbox.done(site.do(inbox.admit("evt-2", "bank", group="books"))))
    site.do(inbox.admit("evt-3", "post", group="books"))
    page = visit(site, "/inbox")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.filter(has_text="evt-1")).to_contain_text("no such account")

    page.get_by_label("Source").fill("bank")
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="failed").click()
    expect(rows).to_have_count(1)
    page.reload()
    expect(rows).to_contain_text("evt-1")
    page.get_by_label("Source").fill("")
    page.get_by_role("button", name="processing").click()
    rows.filter(has_text="evt-3").get_by_role("button", name="Release").click()
    page.get_by_role("dialog").get_by_role("button", name="Release").click()

    expect(page.get_by_text("No matches.")).to_be_visible()
    view = site.do(inbox.get("evt-3", "post", group="books"))
    assert view is not None
    assert view.status == "seen"
    page.goto(f"{site.address}/audit?find=inbox")
    page.get_by_role("link", name="evt-3").click()
    expect(rows).to_contain_text("evt-3")


@pytest.fixture
def album(sites: Sites) -> Site:
    """A join of three photos, of which nobody has developed one yet."""
    app = Mainspring("memory://", name="shop")

    @app.consumer("photos", group="resize")
    async def resize(photo: Any) -> None: ...

    @app.consumer("albums", group="publish_album")
    async def publish_album(name: Any) -> None: ...

    site = sites(app, worker=False)
    site.do(app.declare())
    site.do(app.join([(resize, number) for number in range(3)], then=(publish_album, "Summer"), key="album:7"))
    return site


def test_a_join_is_shown_with_what_it_waits_for_and_cancelled(album: Site, visit: Opening) -> None:
    page = visit(album, "/joins")
    row = page.locator("tbody tr")
    expect(row).to_contain_text("0 of 3")
    expect(row).to_contain_text("publish_album")

    row.get_by_role("link", name=re.compile("^…")).click()
    expect(page.locator("tbody tr")).to_have_count(3)
    expect(page.get_by_text("album:7")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("no film")
    dialog.get_by_role("button", name="Cancel the join").click()

    expect(page.get_by_text("3 cancelled, 0 asked to stop.")).to_be_visible()
    (line, *_) = [each for each in album.do(album.app.audit()) if each.action == "cancel"]
    assert line.detail == "no film"


def test_why_a_worker_is_drained_is_shown(site: Site, visit: Opening) -> None:
    (worker,) = site.do(site.app.stats.roster()).workers
    site.do(site.app.workers.drain(worker.name, by="ann", reason="to be replaced"))

    page = visit(site, "/workers")

    expect(page.get_by_text(re.compile("by ann: to be replaced"))).to_be_visible()
