"""A real Chromium, one for this folder, and pages in it that tell what went wrong."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser.site import OPERATOR, Site, furnish, shop
from tests.services.chromium import chromium

# The window of the new headless mode has an address bar, whose menu is two pages of its own in a process of its own:
# they would take as long to load as what a test looks at. A second list replaces the first: Playwright's is repeated.
_PLAYWRIGHTS = (
    "AimEnabled,AvoidCorsURLLoaderRestartOnRedirect,AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,"
    "HttpsFirstBalancedModeAutoEnable,HttpsUpgrades,LensOverlay,MediaRouter,NetworkTimeServiceQuerying,"
    "OptimizationHints,PaintHolding,PreconnectToSearch,ThirdPartyStoragePartitioning"
)
_FEATURES = f"--disable-features={_PLAYWRIGHTS},WebUIOmniboxAimPopup,WebUIOmniboxPopup"

_LOOKS: dict[str, Any] = {
    "viewport": {"width": 1280, "height": 900},
    # A page on which something breathes is drawn again and again, on a processor that the tests need.
    "reduced_motion": "reduce",
}

Opening = Callable[..., Page]
Sites = Callable[..., Site]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    # As long as this is open a loop runs in this thread, in which no async test could run: not for the whole run, then.
    with sync_playwright() as playwright:
        # Who runs as root, as in a container, has no sandbox to give; nothing but our own pages is opened.
        found = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", _FEATURES])
        yield found
        found.close()


@pytest.fixture(scope="package")
def profile(browser: Browser) -> BrowserContext:
    """The one of most pages: making one, with processes of its own, takes as long as loading a page."""
    return browser.new_context(**_LOOKS)


@pytest.fixture
def sites() -> Iterator[Sites]:
    """Opens sites, which end after the pages that look at them."""
    with ExitStack() as stack:
        yield lambda app, **options: stack.enter_context(Site(app, **options))


@pytest.fixture
def site(sites: Sites) -> Site:
    opened = sites(shop("memory://"))
    opened.do(furnish(opened.app))
    return opened


@pytest.fixture
def told() -> list[str]:
    """What pages had to complain of; a test that provokes it clears the list."""
    return []


@pytest.fixture
def visit(browser: Browser, profile: BrowserContext, sites: Sites, told: list[str]) -> Iterator[Opening]:
    """Opens a page of a site, logged in; at the end no page may have had an error to tell.

    A second one within a test is that of another person, and one that looks otherwise has its own profile too.
    """
    free = [profile]
    with ExitStack() as stack:

        def opening(site: Site, path: str = "/", token: str | None = OPERATOR, **options: Any) -> Page:
            if free and not options:
                context = free.pop()
                stack.callback(_leave, context)
            else:
                context = browser.new_context(**{**_LOOKS, **options})
                stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(15_000)
            page.on("console", lambda message: told.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: told.append(str(error)))
            page.on("dialog", lambda dialog: told.append(f"a dialog: {dialog.message}"))
            if token is None:
                page.goto(site.address + path)
                return page
            if path == "/":
                page.goto(f"{site.address}/login#token={token}")
            else:  # the cookie alone: a page that is loaded only to be left costs as much as the one that is asked for
                login = context.request.post(
                    f"{site.address}/api/login", data={"token": token}, headers={"Origin": site.origin}
                )
                assert login.ok, login.text()
                page.goto(site.address + path)
            page.get_by_role("navigation", name="Screens").wait_for()
            return page

        yield opening
    assert told == [], told


def _leave(profile: BrowserContext) -> None:
    """Leave nothing for the next page but the files that the browser keeps."""
    for page in profile.pages:
        page.close()
    profile.clear_cookies()
