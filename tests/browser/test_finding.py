"""Finding and ordering rows: by mouse and by keys, and the address says what is shown."""

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from mainspring import Mainspring
from tests.browser.conftest import Opening, Sites
from tests.browser.site import Site


def three_consumers() -> Mainspring:
    """``b`` has the most to do, then ``c``; nobody works."""
    app = Mainspring("memory://", name="shop")

    @app.consumer("a.x", group="a")
    async def a(_: Any) -> None: ...

    @app.consumer("b.x", group="b")
    async def b(_: Any) -> None: ...

    @app.consumer("c.x", group="c")
    async def c(_: Any) -> None: ...

    return app


async def _fill(app: Mainspring) -> None:
    await app.declare()
    for topic in ("b.x", "b.x", "c.x"):
        await app.publish(topic, {})


@pytest.fixture
def idle(sites: Sites) -> Site:
    site = sites(three_consumers(), worker=False)
    site.do(_fill(site.app))
    return site


def _first(page: Page) -> list[str]:
    return [text.split("\n")[0].split()[0] for text in page.locator("tbody tr td:first-child").all_inner_texts()]


def _asked(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def _ordered(page: Page, column: str) -> str | None:
    return page.get_by_role("columnheader", name=column).get_attribute("aria-sort")


def test_a_column_is_ordered_by_its_head_and_stays_so(idle: Site, visit: Opening) -> None:
    page = visit(idle, "/consumers")
    expect(page.locator("tbody tr")).to_have_count(3)
    assert _first(page) == ["a", "b", "c"]

    page.get_by_role("button", name="Ready").click()
    assert (_first(page), _ordered(page, "Ready")) == (["b", "c", "a"], "descending")
    assert _asked(page) == {"sort": ["-ready"]}
    page.get_by_role("button", name="Ready").click()
    assert (_first(page), _ordered(page, "Ready")) == (["a", "c", "b"], "ascending")
    page.reload()

    expect(page.locator("tbody tr")).to_have_count(3)
    assert (_first(page), _ordered(page, "Ready")) == (["a", "c", "b"], "ascending")
    assert _ordered(page, "Consumer") == "none"


def test_it_is_done_by_keys_as_well(idle: Site, visit: Opening) -> None:
    page = visit(idle, "/consumers")
    expect(page.locator("tbody tr")).to_have_count(3)

    page.get_by_role("button", name="Consumer").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    assert (_first(page), _ordered(page, "Consumer")) == (["c", "b", "a"], "descending")
    page.keyboard.press("/")
    page.keyboard.type("B.X")

    expect(page.locator("tbody tr")).to_have_count(1)
    assert _asked(page) == {"find": ["B.X"], "sort": ["-consumer"]}
    assert page.locator("input.find").evaluate("each => each === document.activeElement")


def test_what_has_no_value_stands_last_in_either_order(idle: Site, visit: Opening) -> None:
    page = visit(idle, "/consumers?sort=-run-p95")

    expect(page.locator("tbody tr")).to_have_count(3)
    assert _first(page) == ["a", "b", "c"]
    page.goto(f"{idle.address}/consumers?sort=nonsense&find=zzz")
    expect(page.get_by_text("No matches.")).to_be_visible()


def test_workers_are_found_and_ordered(site: Site, visit: Opening) -> None:
    page = visit(site, "/workers?find=take_order")
    expect(page.get_by_role("button", name="Drain")).to_be_visible()

    page.get_by_role("button", name="In hand").click()
    assert _ordered(page, "In hand") == "descending"
    page.get_by_label("Find a worker").fill("nobody")

    expect(page.get_by_text("No matches.")).to_be_visible()
    assert _asked(page) == {"find": ["nobody"], "sort": ["-in-hand"]}


def test_schedules_are_found_and_ordered(site: Site, visit: Opening) -> None:
    site.do(site.app.schedules.pause("hourly"))
    page = visit(site, "/schedules")

    page.get_by_role("button", name="Next").click()
    assert _ordered(page, "Next") == "ascending"
    assert _first(page)[-1] == "hourly"
    page.get_by_label("Find a schedule").fill("berlin")

    expect(page.locator("tbody tr")).to_have_count(1)
    assert _asked(page) == {"find": ["berlin"], "sort": ["next"]}


def test_the_window_of_the_overview_stands_in_the_address(idle: Site, visit: Opening) -> None:
    page = visit(idle)
    page.get_by_role("button", name="7 days").click()
    assert _asked(page) == {"window": ["7d"]}

    page.reload()

    expect(page.get_by_role("button", name="7 days")).to_have_attribute("aria-pressed", "true")


async def _note(app: Mainspring, many: int) -> None:
    for number in range(many):
        await app.groups.pause("a", by="ada" if number % 2 else "zoe", reason=f"number {number:03}")


def test_the_audit_is_searched_on_the_server(idle: Site, visit: Opening) -> None:
    idle.do(_note(idle.app, 130))
    page = visit(idle, "/audit")
    expect(page.locator("tbody tr")).to_have_count(100)

    page.get_by_label("Find by").fill("number 007")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.reload()

    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("ada")
    page.get_by_label("Find by").fill("number 999")
    expect(page.get_by_text("No matches.")).to_be_visible()


def test_the_audit_says_among_how_many_it_is_ordered(idle: Site, visit: Opening) -> None:
    idle.do(_note(idle.app, 130))
    page = visit(idle, "/audit?sort=-who")
    expect(page.locator("tbody tr").first).to_contain_text("zoe")
    expect(page.get_by_text("Sorted among the newest 100.")).to_be_visible()

    page.get_by_role("button", name="More").click()

    expect(page.locator("tbody tr")).to_have_count(130 + 1)  # it was logged in
    expect(page.get_by_text("Sorted among")).to_have_count(0)


async def _hold(app: Mainspring, many: int) -> None:
    for number in range(many):
        await app.leases.acquire(f"shard-{number:03}", timedelta(minutes=5))


def test_leases_come_in_pages_and_are_found_by_name(idle: Site, visit: Opening) -> None:
    idle.do(_hold(idle.app, 230))
    page = visit(idle, "/leases")
    expect(page.get_by_text("100 held among the first 100")).to_be_visible()

    for shown in (200, 230):
        page.get_by_role("button", name="More").click()
        expect(page.locator("tbody tr")).to_have_count(shown)
    expect(page.get_by_text("230 held")).to_be_visible()
    expect(page.get_by_role("button", name="More")).to_have_count(0)
    page.locator("tr", has_text="shard-229").get_by_role("button", name="Release").click()
    page.get_by_role("dialog").get_by_role("button", name="Release").click()
    expect(page.locator("tr", has_text="shard-229")).to_contain_text("free")
    page.get_by_label("Find a lease").fill("SHARD-11")

    expect(page.locator("tbody tr")).to_have_count(10)
    assert _asked(page) == {"find": ["SHARD-11"]}
