"""The page on health lists every built-in check there is, and each is made under one of these names."""

import re
from typing import get_args

from mainspring.app.observe import checks, schedule_checks
from mainspring.model.health import BuiltIn
from tests.house.tree import ROOT

PAGE = (ROOT / "docs" / "how-to" / "health.md").read_text()
_ROW = re.compile(r"^\| ((?:`[a-z]+(?: …)?`(?:, )?)+) \|", re.MULTILINE)


def test_the_page_lists_the_checks_there_are() -> None:
    section = PAGE.split("## Checks\n")[1].split("\n## ")[0]
    written = [name for row in _ROW.findall(section) for name in re.findall(r"`([a-z]+)", row)]

    assert sorted(written) == sorted(get_args(BuiltIn))


def test_a_built_in_check_has_a_name_that_the_type_checker_knows() -> None:
    for module in (checks, schedule_checks):
        assert module.__file__ is not None
        made = re.findall(r"\bCheck\(", (ROOT / module.__file__).read_text())

        assert made == [], f"{module.__name__}: make it by built_in(…)"
