"""The demo's dashboard, at the address that the demo prints."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.pictures import SCREENS
from tests.browser.site import walk


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "mainspring", "demo", "--seconds", "300", "--file", str(tmp_path / "shop.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        yield next(filter(None, (re.search(r"http://\S+", line) for line in demo.stdout)))[0]
        demo.terminate()
        assert "✗" not in demo.stdout.read()
    assert demo.returncode == 0


def test_the_printed_address_shows_moving_data_on_every_screen(address: str, browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(address)
    handled = page.locator(".tile", has_text="Throughput").locator(".detail")
    expect(handled).to_have_text(re.compile(r"^[1-9][\d,]* handled in total$"), timeout=30_000)

    before = handled.inner_text()
    expect(handled).not_to_have_text(before, timeout=30_000)

    for path in (*SCREENS.values(), "/brokers"):
        walk(page, path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_text("Loading …")).to_have_count(0)
        expect(page.get_by_role("alert")).to_have_count(0)
    context.close()
