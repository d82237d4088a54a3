"""Values and errors as text: safe against their own ``__str__`` and ``__repr__``, and bounded."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable

from mainspring.model.interrupts import is_interrupt

LONGEST = 2_000
"""The maximum length of a logged or stored error; of a longer one, the beginning and the end are kept."""

LONGEST_STACK = 16_000
"""The same for a traceback."""

_NAME = type.__dict__["__name__"].__get__
_QUALNAME = type.__dict__["__qualname__"].__get__
"""Read so, a metaclass cannot change the name of its class."""


def plain(value: object, how: Callable[[object], str] = str) -> str:
    """Return ``str(value)``, uncut; raises nothing but Ctrl-C."""
    try:
        return how(value)
    except BaseException as error:  # a user's own method, which must not lose the text
        if is_interrupt(error):
            raise
        return f"unprintable {_NAME(type(value))}: {_NAME(type(error))}"


def text_of(value: object, limit: int = LONGEST) -> str:
    """Return ``str(value)``, cut to the limit; never raises."""
    return shortened(plain(value), limit)


def repr_of(value: object, limit: int = LONGEST) -> str:
    """Return ``repr(value)``, cut to the limit; never raises."""
    return shortened(plain(value, repr), limit)


def described(error: BaseException) -> str:
    """Return the kind of an error and its text, as ``ValueError: no such order``; never raises."""
    kind, text = str(_QUALNAME(type(error))), plain(error)
    return shortened(f"{kind}: {text}" if text else kind, LONGEST)


def stack_of(error: BaseException) -> str | None:
    """Return its traceback, shortened; None for an error that cannot be inspected."""
    try:
        return joined(traceback.format_exception(error), LONGEST_STACK)
    except BaseException as failed:  # its notes and causes are the user's own objects
        if is_interrupt(failed):
            raise
        return None


def joined(parts: Iterable[str], limit: int) -> str:
    """Join the parts of a traceback into one text, cut to the limit, whichever of them is long."""
    return shortened("".join(shortened(part, limit) for part in parts), limit)


def shortened(text: str, limit: int) -> str:
    """Return the text, fit to be stored. Both ends of a traceback stay: the culprit, and the way there."""
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n… {len(text) - limit} characters left out …\n{text[-half:]}"
    return storable(text)


def storable(text: str) -> str:
    """Return the text without lone surrogates, as os.fsdecode makes them: databases reject them, having no UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()
