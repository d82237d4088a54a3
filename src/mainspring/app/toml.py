"""The configuration file: its location, its content, and the line of each key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mainspring.model.errors import BadOption
from mainspring.model.redaction import redacted

Keys = tuple[str, ...]
OWN = "mainspring.toml"
SHARED = "pyproject.toml"
_TABLE: Keys = ("tool", "mainspring")
# Files that may hold our table; parsing a pyproject.toml for every app costs milliseconds.
_HINT = re.compile(r"^[ \t]*(?:\[\s*)?[\"']?tool[\"']?\s*(?:[\]=]|\.\s*[\"']?mainspring\b)", re.MULTILINE)
_OURS = re.compile(r"^[ \t]*\[\s*tool\s*\.\s*mainspring\b", re.MULTILINE)
_PLACED = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)
_BARE = re.compile(
    r"""\s*(?P<key>[\w."'-]+)\s*=\s*(?P<value>(?=[^#]*[A-Za-z])[^"'\[{#\s](?:[^"'#]*[^"'#\s])?)\s*(?:\#.*)?"""
)
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r]+|\#[^\n]*)
  | (?P<line>\n)
  | (?P<text>\"{3}(?:\\.|[^\\])*?\"{3,5} | '{3}.*?'{3,5} | "(?:\\.|[^"\\\n])*" | '[^'\n]*')
  | (?P<mark>[\[\]{}=,.])
  | (?P<word>[^\s\[\]{}=,.\#"']+)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A file as read: our part of it, and the positions of its keys."""

    path: Path
    table: Mapping[str, object]
    above: Keys
    """The table around it: none in a file of our own."""
    places: Mapping[Keys, tuple[int, int]]

    def place(self, keys: Keys) -> tuple[int, int]:
        """Return the line and column of a key, or of its table if the key itself was not found."""
        whole = (*self.above, *keys)
        return next(
            (self.places[whole[:end]] for end in range(len(whole), 0, -1) if whole[:end] in self.places), (1, 1)
        )


def find_files(start: Path) -> list[Path]:
    """Return the files that may hold our options, by precedence.

    Searches ``start`` and its parents up to the project's root, which has a pyproject.toml or a .git. Without a root
    only ``start``: a file further up belongs to no project.
    """
    folders = (start, *start.parents)
    root = next((place for place, folder in enumerate(folders) if _is_root(folder)), 0)
    named = (folder / name for folder in folders[: root + 1] for name in (OWN, SHARED))
    return [path for path in named if _is_there(path)]


def read_file(path: Path, shown: str) -> TomlFile | None:
    """Read our part of the file; None for a pyproject.toml without one. Raises BadOption naming the place."""
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise BadOption(f"{shown}, line {line}: this is not UTF-8, as TOML has to be") from None
    except OSError as error:
        raise BadOption(f"{shown} cannot be read: {error.strerror}") from None
    above = _TABLE if path.name == SHARED else ()
    if above and not _HINT.search(text):
        return None
    try:
        table = _parse(text, shown)
    except BadOption:
        if above and not _OURS.search(text):
            return None  # broken, not ours to report
        raise
    for key in above:
        inner = table.get(key)
        if not isinstance(inner, dict):
            return None
        table = inner
    return TomlFile(path, table, above, positions(text))


def _parse(text: str, shown: str) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        placed = _PLACED.fullmatch(str(error))
        if placed is None:
            raise BadOption(f"{shown}: {error}") from None
        line, column = (placed[2], placed[3]) if placed[2] else _place(text, len(text))
        hint = _hint(text.split("\n")[int(line) - 1])
        raise BadOption(f"{shown}, line {line}, column {column}: {placed[1]}{hint}") from None


def _hint(line: str) -> str:
    """Return what to write instead, if a value on this line lacks its quotes."""
    bare = _BARE.fullmatch(line)
    if bare is None:
        return ""
    # A # in a password would end the value, and hide that it is a password.
    key, value = bare["key"], bare["value"] if redacted(line) == line else "…"
    if value.lower() in ("true", "false"):
        return f": write {key} = {value.lower()}"
    return f': text needs quotes, write {key} = "{value}"'


def positions(text: str) -> dict[Keys, tuple[int, int]]:
    """Return line and column of every key and table in a valid document."""
    scanner = _Scanner()
    for token in _TOKEN.finditer(text):
        scanner.take(token)
    return {keys: _place(text, offset) for keys, offset in scanner.found.items()}


class _Scanner:
    """A scanner that finds keys in tokens; of values it only knows where they end."""

    def __init__(self) -> None:
        self.found: dict[Keys, int] = {}
        self._table: Keys = ()
        self._inside: list[Keys | None] = []  # the inline tables we are in, None for an array
        self._parts: list[str] = []
        self._first = 0
        self._header = False
        self._naming = True
        self._current: Keys = ()

    def take(self, token: re.Match[str]) -> None:
        """Process one token."""
        kind, text = token.lastgroup, token[0]
        if kind == "line":
            self._parts = []
            self._naming = self._naming or not self._inside
        elif kind == "mark":
            if self._naming:
                self._in_name(text)
            else:
                self._in_value(text)
        elif kind != "space" and self._naming:
            self._first = self._first if self._parts else token.start()
            self._parts.append(_plain(text))

    def _in_name(self, mark: str) -> None:
        if mark == "[":
            self._header = True
        elif mark == "]" and self._header:  # and a second one closes [[…]]
            self._table, self._header = tuple(self._parts), False
            self.found.setdefault(self._table, self._first)
        elif mark == "=":
            table = (self._inside and self._inside[-1]) or self._table
            self._current = (*table, *self._parts)
            self.found.setdefault(self._current, self._first)
            self._parts, self._naming = [], False
        elif mark == "}":  # an inline table that was empty
            self._in_value(mark)

    def _in_value(self, mark: str) -> None:
        if mark in "{[":
            self._inside.append(self._current if mark == "{" else None)
            self._naming = mark == "{"
        elif mark in "}]":
            self._inside.pop()
            self._naming = False
        elif mark == ",":
            self._naming = self._inside[-1] is not None


def _plain(key: str) -> str:
    import tomllib

    return str(tomllib.loads(f"key = {key}")["key"]) if key[0] in "\"'" else key


def _place(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def _is_root(folder: Path) -> bool:
    return _is_there(folder / SHARED) or _is_there(folder / ".git", file=False)


def _is_there(path: Path, *, file: bool = True) -> bool:
    try:
        return path.is_file() if file else path.exists()
    except OSError:  # a directory without permission
        return False
