"""The pages of a fleet: all databases on one, the choice of another, and the way back."""

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.conftest import Opening, Sites
from tests.browser.site import OPERATOR, VIEWER, Site
from tests.browser.tenants import BEHIND, DEAD, NAMES, furnish, tenants

HOSTILE = "<img src=x onerror=alert(1)>/'\"&?#%2F é"
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


def opened(sites: Sites, folder: Path) -> tuple[Site, str]:
    """A fleet whose worker works, and the name of one of its databases that is unlike a name."""
    fleet = tenants(folder, HOSTILE)
    site = sites(None, fleet=fleet)
    site.do(furnish(fleet))
    return site, HOSTILE


def entered(visit: Opening, site: Site, token: str = OPERATOR, **options: Any) -> Page:
    """The page of all databases, logged in."""
    page = visit(site, f"/login#token={token}", token=None, **options)
    expect(page.get_by_role("heading", name="Databases")).to_be_visible(timeout=15_000)
    return page


def test_all_databases_are_on_one_page_and_live(sites: Sites, visit: Opening, tmp_path: Path) -> None:
    site, hostile = opened(sites, tmp_path)
    page = entered(visit, site)

    # What is in trouble is on top, with the reason; the others are there, too.
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(len(NAMES) + 1)
    expect(rows.nth(0)).to_contain_text("127.0.0.1:1")
    expect(rows.nth(0).get_by_role("cell", name="unhealthy", exact=True)).to_be_visible()
    expect(rows.nth(1)).to_contain_text(BEHIND)
    expect(rows.nth(1).get_by_role("cell", name="degraded", exact=True)).to_be_visible()
    expect(rows.filter(has_text="acme-outdoor").get_by_role("cell", name="healthy", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("^Dead letters"))).to_contain_text("3")
    expect(rows.filter(has_text=hostile)).to_have_count(1)

    # New work in one of them is seen without loading the page again.
    fleet = site._shown
    site.do(fleet.publish_many([("parcels.packed", {"n": n}) for n in range(7)], database=BEHIND))  # type: ignore[call-arg]
    expect(rows.filter(has_text=BEHIND).get_by_role("link", name="47")).to_be_visible()

    # Found and filtered, in the address.
    page.keyboard.press("/")
    page.keyboard.type("pine")
    expect(rows).to_have_count(1)
    assert "find=pine" in page.url
    page.get_by_role("searchbox", name="Find a database").fill("")
    page.get_by_role("button", name="Not healthy").click()
    expect(rows).to_have_count(2)
    assert "unwell=true" in page.url
    page.reload()
    expect(rows).to_have_count(2)


def test_an_operator_goes_from_one_database_to_another_by_keys(sites: Sites, visit: Opening, tmp_path: Path) -> None:
    site, hostile = opened(sites, tmp_path)
    page = entered(visit, site)

    # Into one of them: its own screens, by the same login.
    page.locator("tbody").get_by_role("link", name=BEHIND, exact=True).click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.get_by_role("button", name=f"Database: {BEHIND}")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.locator("tbody tr", has_text="ship").get_by_text("paused")).to_be_visible()
    page.locator("tbody tr", has_text="ship").get_by_role("button", name="Resume").click()
    expect(page.get_by_text("ship is resumed.")).to_be_visible()

    # To another by keys alone: the screen stays.
    page.keyboard.press("g")
    page.keyboard.press("n")
    box = page.get_by_role("combobox", name="Find a database")
    expect(box).to_be_focused()
    expect(page.get_by_role("option", selected=True)).to_contain_text(BEHIND)
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", selected=True)).to_contain_text("cedar-foods")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name=f"Database: {BEHIND}")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("rowan")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site.address}/db/rowan-retail/consumers")
    expect(page.get_by_role("heading", name="Consumers")).to_be_visible()

    # A message is in one database only.
    page.goto(f"{site.address}/db/rowan-retail/messages/01890a5d-ac96-774b-bcce-b302099a8057")
    page.get_by_role("button", name="Database: rowan-retail").click()
    page.get_by_role("option", name="acme-outdoor").click()
    expect(page).to_have_url(f"{site.address}/db/acme-outdoor/messages")

    # The one with a hostile name is one as any other.
    page.get_by_role("button", name="Database: acme-outdoor").click()
    page.get_by_role("option", name=hostile).click()
    expect(page.get_by_role("button", name=f"Database: {hostile}")).to_be_visible()
    expect(page.get_by_role("heading", name="Messages")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Messages")).to_be_visible()
    page.get_by_role("navigation", name="Screens").get_by_role("link", name="All databases").click()
    expect(page.get_by_role("heading", name="Databases")).to_be_visible()


def test_a_phone_shows_all_and_a_name_that_is_gone_says_so(
    sites: Sites, visit: Opening, tmp_path: Path, told: list[str]
) -> None:
    site, _ = opened(sites, tmp_path)
    page = entered(visit, site, VIEWER, **PHONE)
    expect(page.locator("tbody tr").nth(0)).to_contain_text(DEAD)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the phone"

    page.goto(f"{site.address}/db/{BEHIND}/consumers")
    expect(page.get_by_role("heading", name="Consumers")).to_be_visible()
    page.get_by_role("button", name=f"Database: {BEHIND}").click()
    expect(page.get_by_role("option", name="acme-outdoor")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the choice is wider than the phone"
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)  # a viewer

    page.goto(f"{site.address}/db/nope/consumers")
    expect(page.get_by_text("This fleet has no database nope")).to_be_visible()
    page.get_by_role("main").get_by_role("link", name="All databases").click()
    expect(page.get_by_role("heading", name="Databases")).to_be_visible()
    told[:] = [each for each in told if "404" not in each]  # the browser complains of the page's status
