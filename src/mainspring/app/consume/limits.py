"""Order and limits of consumers: their options."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

from mainspring.app.options import choice, flag, whole
from mainspring.model.errors import BadOption
from mainspring.model.limits import Limits, OnFailure, Rate
from mainspring.timing.duration import DurationError, duration, exactly, spell

_MOST = 1_000_000
_SHORTEST, _LONGEST = timedelta(milliseconds=10), timedelta(days=31)
_ON_FAILURE = ("block", "skip")
_BY_KEY = ("ordered", "key_concurrency", "key_rate")


def read_limits(options: Mapping[str, Any], name: str, *, keyless: bool) -> Limits | None:
    """Return the limits among these options, or None. ``keyless``: its messages have no keys."""
    ordered = flag(options.get("ordered", False), "ordered")
    if "on_failure" in options and not ordered:
        raise BadOption(
            f"on_failure={options['on_failure']!r} is for ordered consumers, and {name} has no order: "
            "add ordered=True, or leave on_failure out"
        )
    if keyless and (by_key := [each for each in _BY_KEY if options.get(each)]):
        raise BadOption(
            f"{name} has {by_key[0]}=, which goes by the key of a message, and the occurrences of this schedule have "
            "none: give key=, or leave it out; overlap= sets what happens when one is due while another runs"
        )
    limits = Limits(
        ordered=ordered,
        on_failure=cast("OnFailure", choice(options.get("on_failure", "block"), _ON_FAILURE, "on_failure")),
        key_concurrency=_number(options, "key_concurrency"),
        global_concurrency=_number(options, "global_concurrency"),
        rate=_rate(options, "rate"),
        key_rate=_rate(options, "key_rate"),
    )
    _refuse_conflicts(limits, name)
    return None if limits == Limits() else limits


def shown_limits(limits: Limits | None) -> dict[str, str]:
    """Return declared options."""
    if limits is None:
        return {}
    declared = {
        "ordered": limits.on_failure if limits.ordered else None,
        "key_concurrency": limits.key_concurrency,
        "global_concurrency": limits.global_concurrency,
        "rate": limits.rate and _spelled(limits.rate),
        "key_rate": limits.key_rate and _spelled(limits.key_rate),
    }
    return {name: str(value) for name, value in declared.items() if value is not None}


def _refuse_conflicts(limits: Limits, name: str) -> None:
    if limits.ordered and limits.key_concurrency is not None and limits.key_concurrency > 1:
        raise BadOption(
            f"{name} has ordered=True, which is one at a time under a key, and key_concurrency="
            f"{limits.key_concurrency}: leave one of them out"
        )
    per_key, overall = limits.key_concurrency, limits.global_concurrency
    if per_key is not None and overall is not None and per_key > overall:
        raise BadOption(
            f"{name} has key_concurrency={per_key}, which its global_concurrency={overall} never lets it reach: lower "
            "the first or raise the second"
        )
    one, all_of_it = limits.key_rate, limits.rate
    if one is not None and all_of_it is not None and one.per <= all_of_it.per and one.count > all_of_it.count:
        raise BadOption(
            f"{name} has key_rate={_spelled(one)!r}, which its rate={_spelled(all_of_it)!r} never lets it reach: lower "
            "the first or raise the second"
        )


def _number(options: Mapping[str, Any], option: str) -> int | None:
    value = options.get(option)
    return None if value is None else whole(value, option, least=1, most=_MOST)


def _rate(options: Mapping[str, Any], option: str) -> Rate | None:
    value = options.get(option)
    if value is None:
        return None
    count, _, per = value.partition("/") if isinstance(value, str) else ("", "", "")
    number, text = count.strip(), per.strip()
    try:
        window = duration(f"1{text}" if text.isalpha() else text, of=option)
    except DurationError:
        window = None
    if window is None or not (number.isascii() and number.isdecimal()):
        raise BadOption(f"{option}={value!r} is not a rate: write how many in what time, as in '100/1m' or '5/1s'")
    if not 1 <= int(number) <= _MOST:
        raise BadOption(f"{option}={value!r} is out of bounds: write how many, from 1 to {_MOST:,}, before the slash")
    if not _SHORTEST <= window <= _LONGEST:
        raise BadOption(
            f"{option}={value!r} is out of bounds: write a time between {spell(_SHORTEST)} and {spell(_LONGEST)} "
            "after the slash"
        )
    return Rate(int(number), window)


def _spelled(rate: Rate) -> str:
    return f"{rate.count}/{exactly(rate.per)}"
