"""Values and errors in words: whatever their own ``__str__`` and ``__repr__`` do, and however much they say."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable

from mainspring.model.interrupts import is_interrupt

LONGEST = 2_000
"""Characters of an error that are logged and stored; of what is longer, the beginning and the end."""

LONGEST_STACK = 16_000
"""The same for a traceback."""

_NAME = type.__dict__["__name__"].__get__
_QUALNAME = type.__dict__["__qualname__"].__get__
"""Asked so, no metaclass has a say in what its class is called."""


def plain(value: object, how: Callable[[object], str] = str) -> str:
    """``str(value)``, all of it; never raises, but for Ctrl-C."""
    try:
        return how(value)
    except BaseException as error:  # a user's own method, and no reason to lose what it is asked for
        if is_interrupt(error):
            raise
        return f"unprintable {_NAME(type(value))}: {_NAME(type(error))}"


def text_of(value: object, limit: int = LONGEST) -> str:
    """``str(value)``, cut to the limit; never raises."""
    return shortened(plain(value), limit)


def repr_of(value: object, limit: int = LONGEST) -> str:
    """``repr(value)``, cut to the limit; never raises."""
    return shortened(plain(value, repr), limit)


def described(error: BaseException, limit: int = LONGEST) -> str:
    """The kind of an error and its text, as ``ValueError: no such order``; never raises."""
    kind, text = str(_QUALNAME(type(error))), plain(error)
    return shortened(f"{kind}: {text}" if text else kind, limit)


def stack_of(error: BaseException, limit: int = LONGEST_STACK) -> str | None:
    """Its traceback, cut to the limit; None for an error that cannot be looked at."""
    try:
        return joined(traceback.format_exception(error), limit)
    except BaseException as failed:  # its notes and its causes are the user's own objects
        if is_interrupt(failed):
            raise
        return None


def joined(parts: Iterable[str], limit: int) -> str:
    """The parts of a traceback as one text, cut to the limit, whichever of them is long."""
    return shortened("".join(shortened(part, limit) for part in parts), limit)


def shortened(text: str, limit: int) -> str:
    """The text, fit to be stored. The end of a traceback names the culprit, its beginning the way there: both stay."""
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n… {len(text) - limit} characters left out …\n{text[-half:]}"
    return storable(text)


def storable(text: str) -> str:
    """The text without lone surrogates, as os.fsdecode makes them: they have no UTF-8, and no database takes them."""
    return text.encode("utf-8", "backslashreplace").decode()
