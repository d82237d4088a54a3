"""The page about logs names every logger that the package has, and no other."""

import re

from tests.house.tree import ROOT

PAGE = ROOT / "docs" / "how-to" / "logs.md"


def test_every_logger_is_on_the_page_and_no_other() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    made = re.findall(r'(?:getLogger|RateLimitedLog)\([^()]*?"(mainspring\.\w+)"', sources)
    rows = re.findall(r"^\| ((?:`mainspring\.\w+`(?:, )?)+) \|", PAGE.read_text(), re.MULTILINE)
    written = [name for row in rows for name in re.findall(r"`(mainspring\.\w+)`", row)]

    assert sorted(written) == sorted({*made, "mainspring.worker"})
