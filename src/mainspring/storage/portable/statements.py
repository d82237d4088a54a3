"""SQL by name: the statements of a dialect, those that dialects share, and the parts that both are made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple, TypeVar

from mainspring.storage.script import prefixed

T = TypeVar("T")
PACKAGE = "mainspring.storage.portable"
_ENTRY = re.compile(r"^-- (name|part|spell): (.+)$", re.MULTILINE)
_PART = re.compile(r"([A-Z_]+)\((.*)\)")
_CALL = re.compile(r"\b([A-Z_]{3,})\(")


class Part(NamedTuple):
    """Text with parameters, which stands in a statement as ``NOW($4)`` does."""

    parameters: tuple[str, ...]
    text: str


class Sources(NamedTuple):
    """The ``.sql`` files of one folder."""

    statements: dict[str, str]
    """Each begins with a line ``-- name: claim``."""
    rooms: dict[str, str]
    """The file of each statement, without its suffix."""
    parts: dict[str, Part]
    """Each begins with a line ``-- part: NOW(at)``; ``{at}`` in its text is the argument."""
    spelling: list[tuple[str, str]]
    """Lines ``-- spell: pattern => text``: how shared statements, written for PostgreSQL, are written here."""


@cache
def load(package: str, name: str, prefix: str) -> str:
    """The statement of a dialect that is called this, with the configured prefix.

    PostgreSQL's are written with tables as ``mainspring.delivery`` (a schema), the others with ``mainspring_delivery``.
    """
    own = _sources(package)
    text = own.statements.get(name) or _spelled(_sources(PACKAGE).statements[name], own.spelling)
    return prefixed(_expanded(text, _parts(package)), prefix)


@cache
def statements(package: str) -> Mapping[str, str]:
    """All statements of a dialect by name, as they are written for the prefix ``mainspring``."""
    names = sorted(_sources(PACKAGE).statements | _sources(package).statements)
    return {name: load(package, name, "mainspring") for name in names}


def rooms(package: str) -> dict[str, dict[str, str]]:
    """Return the statements of a dialect, written for the prefix ``mainspring``, by room and by name."""
    found: dict[str, dict[str, str]] = {}
    where = _sources(PACKAGE).rooms | _sources(package).rooms
    for name, text in statements(package).items():
        found.setdefault(where[name], {})[name] = text
    return found


@cache
def _parts(package: str) -> Mapping[str, Part]:
    own = _sources(package)
    shared = _sources(PACKAGE).parts.items()
    return {name: part._replace(text=_spelled(part.text, own.spelling)) for name, part in shared} | own.parts


@cache
def _sources(package: str) -> Sources:
    found = Sources({}, {}, {}, [])
    for file in (files(package) / "sql").iterdir():
        if not file.name.endswith(".sql"):
            continue
        _, *entries = _ENTRY.split(file.read_text(encoding="utf-8"))
        for kind, title, text in zip(entries[::3], entries[1::3], entries[2::3], strict=True):
            if kind == "spell":
                pattern, _, replacement = title.partition(" =>")
                found.spelling.append((pattern, replacement.strip()))
            elif kind == "name":
                _add(found.statements, title, text.strip("\n"), package)
                found.rooms[title] = file.name.removesuffix(".sql")
            else:
                part = _PART.fullmatch(title)
                assert part is not None, f"a part is written as NAME(parameters), not {title!r}"
                parameters = tuple(each.strip() for each in part[2].split(",") if each.strip())
                _add(found.parts, part[1], Part(parameters, text.strip("\n")), package)
    return found


def _add(found: dict[str, T], name: str, what: T, package: str) -> None:
    if name in found:
        raise ValueError(f"{package} has two statements or parts called {name!r}: rename one of them")
    found[name] = what


def _spelled(text: str, spelling: list[tuple[str, str]]) -> str:
    for pattern, replacement in spelling:
        text = re.sub(pattern, replacement, text)
    return text


def _expanded(text: str, parts: Mapping[str, Part]) -> str:
    """Put the parts in their places, those within parts too."""
    done, at = "", 0
    for call in _CALL.finditer(text):
        if call.start() < at or call[1] not in parts:
            continue
        arguments, end = _arguments(text, call.end())
        part = parts[call[1]]
        inner = part.text
        for parameter, argument in zip(part.parameters, arguments, strict=True):
            inner = inner.replace(f"{{{parameter}}}", argument)
        done += text[at : call.start()] + _expanded(inner, parts)
        at = end
    return done + text[at:]


def _arguments(text: str, at: int) -> tuple[list[str], int]:
    """The arguments that begin here, and where the text goes on after them."""
    arguments, depth, start = [], 0, at
    while depth >= 0:
        match text[at]:
            case "(":
                depth += 1
            case ")":
                depth -= 1
            case "," if depth == 0:
                arguments.append(text[start:at].strip())
                start = at + 1
        at += 1
    last = text[start : at - 1].strip()
    return [*arguments, last] if arguments or last else [], at
