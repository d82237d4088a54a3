"""The dashboard's own files: small, ours, all of them used, and none of them able to turn text into markup."""

import re
from pathlib import Path

import pytest

from tests.house.tree import ROOT

STATIC = ROOT / "src/mainspring/dashboard/static"
SCRIPTS = sorted(STATIC.glob("js/**/*.js"))
SHEETS = sorted(STATIC.glob("css/*.css"))
PAGE = STATIC / "index.html"
_MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|\beval\(|new Function")
_IMPORTED = re.compile(r"""(?:from|import) "(\.[^"]+)";""")


def _name(path: Path) -> str:
    return str(path.relative_to(STATIC))


def test_there_are_scripts_and_sheets_to_look_at() -> None:
    assert len(SCRIPTS) > 20
    assert len(SHEETS) > 5


@pytest.mark.parametrize("path", SCRIPTS, ids=_name)
def test_no_script_turns_text_into_markup_or_code(path: Path) -> None:
    assert _MARKUP.findall(path.read_text()) == []


@pytest.mark.parametrize("path", [*SCRIPTS, *SHEETS, PAGE], ids=_name)
def test_nothing_is_asked_of_other_machines(path: Path) -> None:
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[\w./]*", path.read_text()))

    assert addresses <= {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("path", [*SCRIPTS, *SHEETS], ids=_name)
def test_every_file_is_small_and_says_what_it_holds(path: Path) -> None:
    text = path.read_text()

    assert len(text.splitlines()) <= 400
    assert text.startswith(("/**", "/*", "//"))
    assert max(map(len, text.splitlines())) <= 500, "minified code has no place here"


def test_every_exported_name_says_what_it_is() -> None:
    unsaid = [
        f"{_name(path)}: {found[1]}"
        for path in SCRIPTS
        for found in re.finditer(r"^export (?:async )?(?:function|class|const) (\w+)", path.read_text(), re.MULTILINE)
        if not path.read_text()[: found.start()].rstrip().endswith("*/") and found[1] != "root"
    ]

    assert unsaid == []


def test_every_file_is_used() -> None:
    page = PAGE.read_text()
    reached = {STATIC / each for each in re.findall(r'\{\{home\}\}/static/\{\{build\}\}/([^"]+)"', page)}
    waiting = [path for path in reached if path.suffix == ".js"]
    while waiting:
        path = waiting.pop()
        found = {(path.parent / each).resolve() for each in _IMPORTED.findall(path.read_text())} - reached
        reached |= found
        waiting += found

    assert {_name(path) for path in reached} == {_name(path) for path in STATIC.rglob("*.*")} - {"index.html"}
