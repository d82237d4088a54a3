"""Reading options: unknown names, closest names, and lengths of time."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from typing import ParamSpec, TypeVar, cast

from mainspring.model.errors import BadOption
from mainspring.timing.backoff import NO_RETRY, PRESETS, RetryPolicy, read_policy
from mainspring.timing.duration import Duration, DurationError, duration, spell
from mainspring.vocabulary import option_advice

P = ParamSpec("P")
R = TypeVar("R")

_PARTS = {"Mainspring": "app", "DeadLetters": "app.dead", "Queue": "queue"}
"""How callers spell an object of these classes; others are ``app.`` and the name of their class."""
_TRUTHS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True)
class Setting:
    """An option that is set, to any value at all; an unset option has no setting."""

    value: object = field(repr=False)
    """As read. It may be a URL with a password, so it is not shown."""
    source: str
    """Its source: ``argument``, ``MAINSPRING_GRACE``, ``mainspring.toml:3``, ``preset development``."""
    within: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """The source of each option in it, if it is a table."""


_SURE = 0.7


def closest(word: str, known: Iterable[str]) -> str:
    """Return a sentence that suggests the nearest known word, or an empty string."""
    near = nearest(word, known)
    return f" Did you mean {near!r}?" if near else ""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the nearest known word, ignoring case; None if none is near."""
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(word.lower(), by_lower, n=1, cutoff=_SURE)
    # Transposed letters of a short word make it less alike than that, and leave its first one in place.
    near = near or [each for each in get_close_matches(word.lower(), by_lower) if each[0] == word[0].lower()]
    return by_lower[near[0]] if near else None


def unknown(problem: str, word: str, known: Sequence[str]) -> BadOption:
    """Return the error for an unknown name, as in "there is no group", with the nearest one and all known ones."""
    return BadOption(f"{problem} {word!r}.{closest(word, known)} There are: {', '.join(known) or 'none'}")


def refuse_unknown(
    given: Iterable[str],
    known: Iterable[str],
    call: str,
    advise: Callable[[str, list[str]], str | None] = option_advice,
) -> None:
    """Raise BadOption for the first option that ``call`` does not know."""
    names = sorted(known)
    for name in given:
        if name not in names:
            if (advice := advise(name, names)) is not None:
                raise BadOption(f"{call} has no option {name!r}: {advice}")
            raise BadOption(f"{call} has no option {name!r}.{closest(name, names)} It accepts {', '.join(names)}")


def named_options(method: Callable[P, R]) -> Callable[P, R]:
    """Have an unknown option of a method of an app rejected as by ``refuse_unknown``, instead of by Python."""
    known = frozenset(inspect.signature(method).parameters) - {"self"}
    owner, _, name = method.__qualname__.partition(".")

    @functools.wraps(method)
    def call(*args: P.args, **options: P.kwargs) -> R:
        if not options.keys() <= known:
            refuse_unknown(options, known, f"{_PARTS.get(owner) or f'app.{owner.lower()}'}.{name}(…)")
        return method(*args, **options)

    if not inspect.iscoroutinefunction(method):
        return call

    @functools.wraps(method)
    async def awaited(*args: P.args, **options: P.kwargs) -> object:
        return await cast("Awaitable[object]", call(*args, **options))

    return cast("Callable[P, R]", awaited)


def requires(option: str, example: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have a call without this option rejected with what to write, instead of by Python."""

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(method)
        def call(*args: P.args, **options: P.kwargs) -> R:
            if option not in options:
                raise BadOption(f"app.{method.__name__}(…) has no {option}=: write {example}")
            return method(*args, **options)

        return call

    return decorate


def choice(value: object, allowed: Iterable[str], option: str) -> str:
    """Return ``value`` if it is a word allowed for this option."""
    words = list(allowed)
    if isinstance(value, str) and value in words:
        return value
    hint = closest(value, words) if isinstance(value, str) else ""
    raise BadOption(f"{option}={value!r} is not one of {', '.join(map(repr, words))}.{hint}")


def length(
    value: object,
    option: str,
    *,
    least: timedelta = timedelta(),
    most: timedelta | None = None,
) -> timedelta:
    """Read a length of time for this option, and reject one out of its bounds."""
    try:
        read = duration(cast("Duration", value), of=option)
    except DurationError as error:
        raise BadOption(str(error)) from None
    if read < least or (most is not None and read > most):
        bounds = f"at least {spell(least)}" if most is None else f"between {spell(least)} and {spell(most)}"
        raise BadOption(f"{option}={value!r} is out of bounds: it must be {bounds}")
    return read


def whole(value: object, option: str, *, least: int, most: int) -> int:
    """Read a whole number for this option, and reject one out of its bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadOption(f"{option}={value!r} must be a whole number from {least:,} to {most:,}")
    return value


def flag(value: object, option: str) -> bool:
    """Read True or False for this option."""
    if not isinstance(value, bool):
        raise BadOption(f"{option}={value!r} must be True or False")
    return value


def flag_in(text: str) -> object:
    """Parse True or False; anything else is left for ``flag`` to reject."""
    return _TRUTHS.get(text.strip().lower(), text)


def whole_in(text: str) -> object:
    """Parse a whole number; anything else is left for ``whole`` to reject."""
    try:
        return int(text)
    except ValueError:
        return text


def given(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options that are set: None is the same as unset."""
    return {name: value for name, value in options.items() if value is not None}


def retry_policy(retry: object, default: RetryPolicy) -> RetryPolicy:
    """Read a policy, the name of a preset, or waits as in "5s, 1m"."""
    if retry is None:
        return default
    if isinstance(retry, RetryPolicy):
        return retry
    if isinstance(retry, str):
        with contextlib.suppress(ValueError):
            return read_policy(retry)
    hint = closest(retry, PRESETS) if isinstance(retry, str) else ""
    names = ", ".join(map(repr, PRESETS))
    if isinstance(retry, int) and not isinstance(retry, bool) and retry > 0:
        raise BadOption(
            f"retry={retry} is a number, not a policy: write retry=exponential(attempts={retry}), which counts the "
            f"first attempt too, or one of {names}"
        )
    raise BadOption(f"retry={retry!r} is neither a policy, as exponential('1s', attempts=5), nor one of {names}.{hint}")


def default_policy(value: object, option: str) -> RetryPolicy:
    """Read the retry policy of an app: as that of a consumer."""
    if value is None:
        raise BadOption(f"{option}=None: write {option}='none' to have nothing retried")
    return retry_policy(value, NO_RETRY)
