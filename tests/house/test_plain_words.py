"""The library speaks plainly: banned words are in no text, and every message that the documentation quotes is in it."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.house.figures import BANNED, spoken
from tests.house.tree import ROOT

_ERRORS = ROOT / "docs" / "reference" / "errors.md"
_QUOTED = re.compile(r"``(.+?)``|`([^`]+)`")
_VALUE = re.compile(r"…|'[^']*'|\b\w+=|\b\d[\w.]*|[A-Za-z_.]+\([^)]*\)|`[^`]*`?")
"""What stands in a quoted message for a value: the source has a placeholder there, or another example."""


def test_no_banned_word_is_in_the_source_or_the_documentation() -> None:
    pattern = re.compile(BANNED, re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in spoken(ROOT)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]

    assert found == []


def _quotes() -> Iterator[str]:
    """The messages in the first cells of the tables of errors, as the page quotes them."""
    page = _ERRORS.read_text(encoding="utf-8")
    for line in page[page.index("## Classes") :].splitlines():
        if line.startswith("| ") and not line.startswith(("| message", "| route", "| code", "| log line")):
            cell = re.split(r"(?<!\\) \| ", line[2:])[0]
            for double, single in _QUOTED.findall(cell):
                quote = (double or single).strip()
                if " " in quote:
                    yield quote


@cache
def _texts() -> tuple[str, ...]:
    """Every text of the source, with … where a value is put in."""
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
                found.add("".join(map(str, parts)))
    return tuple(re.sub(r"%[sdr]|%\.\df|\s+", lambda m: "…" if m[0][0] == "%" else " ", text) for text in found)


@pytest.mark.parametrize("quote", list(_quotes()))
def test_a_quoted_message_is_in_the_source(quote: str) -> None:
    words = [part.strip(" :,.()@") for part in _VALUE.split(quote)]
    needed = [part for part in words if len(part) > 3]

    assert needed, f"{quote!r} quotes too little to be found"
    missing = [part for part in needed if not any(part in text for text in _texts())]
    assert missing == [], quote
