"""The system's own Chromium: playwright drives it, and downloads none."""

import shutil

from tests.services.needs import need

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str:
    """Where it is."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    need(found, "Chromium", "make services")
    assert found is not None, "or the test is over"
    return found
