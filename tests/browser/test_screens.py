"""Every screen, in a real browser: it shows what is there, in every theme and width, under any path."""

from pathlib import Path

from playwright.sync_api import Page, expect

from mainspring import Mainspring
from tests.browser.conftest import Opening, Sites
from tests.browser.site import Site, furnish, shop, walk

SCREENS = {
    "/": ["Throughput", "Dead letters", "take_order", "no stock for order", "nightly", "storage"],
    "/messages": ["orders.placed", "take_order", "page 3 of 24", "order:5"],
    "/messages?state=dead": ["no stock for order 2", "the card was declined"],
    "/messages?state=parked": ["nobody.listens", "no consumer yet"],
    "/consumers": ["take_order", "orders.placed", "render", "Pause"],
    "/consumers/view?group=take_order": ["take_order", "Its messages", "up to 4 at once", "no stock for order"],
    "/schedules": ["nightly", "At 02:30", "Europe/Berlin", "hourly", "Run now"],
    "/schedules/view?name=nightly": ["nightly", "all counted", "manual", "Europe/Berlin", "Backfill"],
    "/schedules/try?rhythm=0+9+*+*+mon-fri": ["Try an expression", "At 09:00, Monday through Friday"],
    "/dead": ["3 deliveries of 2 causes", "Broken", "the card was declined"],
    "/brokers": ["1 of 2 connected", "idle", "send_to_carrier", "memory:returns", "parcels.returned", "Check"],
    "/leases": ["price-feed", "held", "Release"],
    "/fanouts": ["shelves", "2 of 2 shards"],
    "/workers": ["alive", "1 in hand", "films.rendered", "page 3 of 24", "Drain"],
    "/audit": ["schedule trigger", "tests"],
}


def _shows(page: Page, texts: list[str]) -> None:
    main = page.get_by_role("main")
    for text in texts:
        expect(main.get_by_text(text).filter(visible=True).first).to_be_visible()


def test_every_screen_shows_what_is_there_when_its_address_is_opened(site: Site, visit: Opening) -> None:
    page = visit(site)

    for path, texts in SCREENS.items():
        page.goto(site.address + path)
        _shows(page, texts)


def test_every_screen_shows_what_is_there_on_sqlite(sites: Sites, visit: Opening, tmp_path: Path) -> None:
    _walk_through_all(sites(shop(f"sqlite:///{tmp_path}/shop.db")), visit)


def test_every_screen_shows_what_is_there_on_postgresql(
    sites: Sites, visit: Opening, postgres_url: str, postgres_schema: str
) -> None:
    _walk_through_all(sites(shop(postgres_url, schema=postgres_schema)), visit)


def _walk_through_all(site: Site, visit: Opening) -> None:
    site.do(furnish(site.app))
    page = visit(site)

    for path, texts in SCREENS.items():
        walk(page, path)
        _shows(page, texts)


def test_a_message_is_shown_with_all_that_was_tried_and_what_it_caused(site: Site, visit: Opening) -> None:
    page = visit(site, "/messages?state=done&group=take_order")

    page.get_by_role("link", name="orders.placed").first.click()

    _shows(page, ["Published", "taken", "tenant", "acme", "parcels.packed"])
    page.get_by_role("link", name="parcels.packed").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("parcels.packed")
    _shows(page, ["orders.placed", "parcel"])


def test_a_failure_is_shown_with_its_traceback_and_without_what_is_secret(site: Site, visit: Opening) -> None:
    page = visit(site, "/messages?state=dead&error=declined")

    page.get_by_role("link", name="orders.placed").click()

    _shows(page, ["dead", "the card was declined", "•••"])
    expect(page.locator("pre.trace")).to_be_visible()  # of a dead letter it stands open
    expect(page.locator("pre.trace")).to_contain_text("in take_order")
    expect(page.locator("body")).not_to_contain_text("4000 1234")


def test_a_command_in_the_text_of_a_check_is_set_as_a_command(site: Site, visit: Opening) -> None:
    page = visit(site)

    expect(page.get_by_role("alert").locator("code").first).to_have_text("mainspring dead causes")
    expect(page.get_by_role("alert")).not_to_contain_text("`")


def test_a_message_that_is_not_there_is_said_to_be_missing(site: Site, visit: Opening, told: list[str]) -> None:
    page = visit(site, "/messages/00000000-0000-7000-8000-000000000000")

    expect(page.get_by_role("alert")).to_be_visible()
    told.clear()  # the browser itself reports the 404


def test_nothing_is_wider_than_a_phone(site: Site, visit: Opening) -> None:
    page = visit(site, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)

    for path, texts in SCREENS.items():
        walk(page, path)
        _shows(page, texts[:1])
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


def test_empty_screens_say_how_there_would_be_something(sites: Sites, visit: Opening) -> None:
    bare = sites(Mainspring("memory://", name="bare"), worker=False)
    page = visit(bare)
    texts = {
        "/": "No consumers declared yet.",
        "/messages": "No waiting or running deliveries.",
        "/messages?state=any": "No messages.",
        "/messages?state=dead": "No dead letters.",
        "/messages?topic=x": "No matches.",
        "/messages?state=retrying": "No deliveries to retry.",
        "/consumers": "No consumers declared yet.",
        "/schedules": "No schedules.",
        "/schedules/try": "Nothing to preview yet.",
        "/brokers": "No routes and no intakes.",
        "/dead": "No dead letters.",
        "/inbox": "No messages received.",
        "/joins": "No open joins.",
        "/leases": "No leases held now or recently.",
        "/fanouts": "No fan-outs.",
        "/workers": "No workers have reported.",
        "/audit": "log in",
        "/nowhere": "No such page.",
    }
    for path, text in texts.items():
        walk(page, path)
        _shows(page, [text])


def test_it_works_under_a_path_of_another_application(sites: Sites, visit: Opening) -> None:
    inner = sites(shop("memory://"), prefix="/ops/queue")
    inner.do(furnish(inner.app))
    page = visit(inner)

    for name in (
        "Messages",
        "Consumers",
        "Schedules",
        "Dead letters",
        "Inbox",
        "Joins",
        "Leases",
        "Fan-out",
        "Workers",
        "Audit",
    ):
        page.get_by_role("navigation", name="Screens").get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        assert "/ops/queue/" in page.url
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Audit")


def test_the_theme_is_the_systems_until_somebody_chooses(site: Site, visit: Opening) -> None:
    page = visit(site, color_scheme="dark")
    theme = "document.documentElement.dataset.theme"
    assert page.evaluate(theme) == "dark"

    page.get_by_role("button", name="Light").click()

    assert page.evaluate(theme) == "light"
    page.reload()
    assert page.evaluate(theme) == "light"
