"""The pictures in ``docs/pictures``: every screen of the demo's dashboard, light, dark and on a phone.

``python -m tests.browser.pictures`` takes them again, in about eight minutes; with the word ``brokers`` only those of
that screen, which shows a shop between brokers of every kind, in seconds, and with *fleet* that of all databases.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.brokered import between_brokers, report
from tests.browser.site import OPERATOR, Site
from tests.browser.tenants import furnish, tenants
from tests.services.chromium import chromium

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
SECONDS = 400
"""How long the shop is open before it is shown: its charts need something to show."""
LOOKS = {
    "light": {"viewport": {"width": 1280, "height": 860}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 860}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "is_mobile": True},
}
SCREENS = {
    "overview": "/",
    "messages": "/messages",
    "consumers": "/consumers",
    "consumer": "/consumers/view?group=book_carrier",
    "schedules": "/schedules",
    "schedule": "/schedules/view?name=stock_take",
    "try": "/schedules/try?rhythm=0+9+*+*+mon-fri&timezone=America/New_York&holidays=US",
    "dead": "/dead",
    "leases": "/leases",
    "fanouts": "/fanouts",
    "workers": "/workers",
    "audit": "/audit",
}


def main(*only: str) -> None:
    """Run the demo, and take a picture of every screen in every look."""
    FOLDER.mkdir(exist_ok=True)
    take_fleet()
    if only == ("fleet",):
        return
    take_brokers()
    if only == ("brokers",):
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = f"{folder}/shop.db"
        command = [sys.executable, "-m", "mainspring", "demo", "--seconds", str(SECONDS + 120), "--file", file]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
            assert demo.stdout is not None, "it is piped"
            address = next(filter(None, (re.search(r"http://\S+", line) for line in demo.stdout)))[0]
            browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
            for look in LOOKS:
                _take(browser, address, look, first=look == "light")
            browser.close()
            demo.terminate()
            demo.stdout.read()


def take_fleet() -> None:
    """Take the picture of all databases of a fleet: the demo has one."""
    with (
        tempfile.TemporaryDirectory() as folder,
        sync_playwright() as playwright,
        Site(fleet=(fleet := tenants(Path(folder)))) as site,
    ):
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        site.do(furnish(fleet))
        page = browser.new_context(**LOOKS["light"], device_scale_factor=1).new_page()  # type: ignore[arg-type]
        page.goto(f"{site.address}/login#token={OPERATOR}")
        page.get_by_role("cell", name="degraded", exact=True).wait_for()
        page.wait_for_timeout(5000)
        page.screenshot(path=FOLDER / "fleet-light.png")
        browser.close()


def take_brokers() -> None:
    """Take the pictures of the brokers' screen: the demo has only one broker, in its own process."""
    with sync_playwright() as playwright, Site(between_brokers(), worker=False) as site:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        site.do(report(site.app))
        for look, options in LOOKS.items():
            page = browser.new_context(**options, device_scale_factor=1).new_page()  # type: ignore[arg-type]
            page.goto(f"{site.address}/login#token={OPERATOR}")
            page.get_by_role("navigation", name="Screens").wait_for()
            page.goto(f"{site.address}/brokers")
            page.get_by_text("4 of 6 connected").wait_for()
            page.screenshot(path=FOLDER / f"brokers-{look}.png")
            page.context.close()
        browser.close()


def _take(browser: Browser, address: str, look: str, *, first: bool) -> None:
    page = browser.new_context(**LOOKS[look], device_scale_factor=1).new_page()  # type: ignore[arg-type]
    page.goto(address)
    page.get_by_role("navigation", name="Screens").wait_for()
    if first:
        page.wait_for_timeout(SECONDS * 1000)
        _leave_traces(page)
    site = address.partition("/login")[0]
    for name, path in SCREENS.items():
        page.goto(site + path)
        page.wait_for_timeout(1500)
        page.screenshot(path=FOLDER / f"{name}-{look}.png")
    page.goto(f"{site}/dead")
    page.get_by_role("link", name="Show", exact=True).first.click()
    page.get_by_role("link", name="parcels.packed").first.click()
    page.get_by_text("Attempts", exact=True).wait_for()
    page.wait_for_timeout(500)
    page.screenshot(path=FOLDER / f"message-{look}.png")
    page.context.close()


def _leave_traces(page: Page) -> None:
    """Do what an operator does, so that the audit has something to show."""
    page.keyboard.press("g")
    page.keyboard.press("c")
    row = page.locator("tr", has_text="tell_customer")
    row.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("the mail server is being moved")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    row.get_by_role("button", name="Resume").click()
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.locator("tr", has_text="newsletter").get_by_role("button", name="Run now").click()
    page.get_by_role("dialog").get_by_role("button", name="Run now").click()


if __name__ == "__main__":
    main(*sys.argv[1:])
