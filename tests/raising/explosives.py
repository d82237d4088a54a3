"""What a handler may raise, at its worst; at module level, where the process of a ``cpu=True`` consumer finds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from mainspring import Done

TEXT = "no paper left"
HUGE = 50_000_000


class BadStr(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class WorseStr(Exception):
    def __str__(self) -> str:
        raise GeneratorExit


class BadRepr(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Panic(BaseException):
    """As a Rust extension raises it, or gevent its timeout."""


class Sealed(Exception):
    """One that can neither be pickled nor copied."""

    def __reduce_ex__(self, _protocol: Any) -> NoReturn:
        raise TypeError("cannot pickle")

    def __copy__(self) -> NoReturn:
        raise TypeError("cannot copy")

    def __deepcopy__(self, _memo: Any) -> NoReturn:
        raise TypeError("cannot copy")


class BadNotes(Exception):
    @property
    def __notes__(self) -> NoReturn:  # type: ignore[override]
        raise Panic("no notes")


class Circle(Exception):
    pass


def circle() -> Circle:
    first, second = Circle(TEXT), Circle("the other")
    first.__cause__ = first.__context__ = second
    second.__cause__ = second.__context__ = first
    return first


KINDS: dict[str, tuple[Callable[[], BaseException], str]] = {
    "bad __str__": (lambda: BadStr(TEXT), "BadStr: unprintable BadStr: RuntimeError"),
    "a __str__ that quits": (lambda: WorseStr(TEXT), "WorseStr: unprintable WorseStr: GeneratorExit"),
    "bad __repr__": (lambda: BadRepr(TEXT), f"BadRepr: {TEXT}"),
    "bad notes": (lambda: BadNotes(TEXT), f"BadNotes: {TEXT}"),
    "BaseException": (lambda: Panic(TEXT), f"Panic: {TEXT}"),
    "GeneratorExit": (lambda: GeneratorExit(TEXT), f"GeneratorExit: {TEXT}"),
    "SystemExit": (lambda: SystemExit(TEXT), f"SystemExit: {TEXT}"),
    "KeyboardInterrupt": (lambda: KeyboardInterrupt(TEXT), f"KeyboardInterrupt: {TEXT}"),
    "sealed": (lambda: Sealed(TEXT), f"Sealed: {TEXT}"),
    "50 MB": (lambda: ValueError("x" * HUGE), "ValueError: xxx"),
    "a circle of causes": (circle, f"Circle: {TEXT}"),
}
"""What is raised, and how what is stored of it begins."""


def explode(kind: str) -> Done:
    """Raise that kind; for any other word it is done."""
    if kind in KINDS:
        make, _ = KINDS[kind]
        raise make()
    return Done(kind)
