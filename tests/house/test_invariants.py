"""Every invariant on its page is named where it is kept, and every test it names exists."""

import re

from tests.house.tree import ROOT

PAGE = (ROOT / "docs" / "invariants.md").read_text()
SOURCES = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.sql")]


def test_every_invariant_is_named_on_a_line_that_keeps_it() -> None:
    promised = {int(number) for number in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}

    kept = {int(number) for each in SOURCES for number in re.findall(r"invariant (\d+)", each.read_text())}

    assert promised
    assert promised == kept


def test_every_test_that_is_named_there_exists() -> None:
    named = set(re.findall(r"`(tests/[\w/*]+(?:\.py)?)`", PAGE))

    assert named
    assert [each for each in named if not list(ROOT.glob(each))] == []
