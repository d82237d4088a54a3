"""Errors about payloads: which part has no encoding, how deep it may nest, where the user's own code failed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from mainspring.model.errors import Unencodable
from mainspring.storage.codec.types import PAYLOADS, said

DEPTH: Final = 64
"""How deeply a payload may nest: readers recurse, so the publisher checks."""

UNFIT = (TypeError, ValueError, RecursionError, OverflowError)
"""What an encoder raises for a value that it cannot write."""


def too_deep() -> Unencodable:
    """Reject a payload that nests too deeply."""
    return Unencodable(f"the payload nests deeper than {DEPTH} levels: send a flatter one, or a reference to it")


def unencodable(value: object, error: Exception, encode: Callable[[object], bytes], form: str) -> Unencodable:
    """Reject what ``encode`` cannot write; the error names the part and its path."""
    path, culprit = _blame(value, "$", 0, encode)
    kind = type(culprit).__qualname__
    where = "" if path == "$" else f" at `{path}`"
    reason = f"it has no {form} form" if isinstance(error, TypeError) else str(error)
    if isinstance(culprit, Mapping):
        reason = "its keys are not text or numbers"
    return Unencodable(f"a payload cannot hold {kind}{where}: {reason}; use {PAYLOADS}")


def told(error: Exception) -> str:
    """An error of the user's own codec or upcaster on one line: its type, its words, and where it was raised.

    The first frame is the call from here, so that what was raised with no other was raised by no code of theirs.
    """
    words = said(error)
    words = f"{type(error).__qualname__}: {words}" if words else type(error).__qualname__
    if error.__traceback__ is None or (trace := error.__traceback__.tb_next) is None:
        return words
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{words} ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"


def _blame(value: object, path: str, depth: int, encode: Callable[[object], bytes]) -> tuple[str, object]:
    if depth > DEPTH:
        return path, value
    for step, child in _children(value):
        try:
            encode(child)
        except UNFIT:
            return _blame(child, path + step, depth + 1, encode)
    return path, value


def _children(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        yield from ((f".{key}" if isinstance(key, str) else f"[{key!r}]", each) for key, each in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{index}]", each) for index, each in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((f".{field.name}", getattr(value, field.name, None)) for field in dataclasses.fields(value))
    elif isinstance(value, msgspec.Struct):
        yield from ((f".{name}", getattr(value, name)) for name in value.__struct_fields__)
