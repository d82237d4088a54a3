"""How long what is over is kept, as people write it: one age, and other ages for single topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any, cast, get_args

from mainspring.app.names import check_pattern
from mainspring.app.options import closest, length
from mainspring.model.errors import BadOption
from mainspring.model.retention import Kind, Retention
from mainspring.timing.duration import spell

Topics = Mapping[str, Mapping[Kind, timedelta | None]]

FOREVER = "forever"
"""How None is spelled where there is only text."""
KEPT = "retention."
"""What goes before the name of a field of the retention among settings."""
TOPICS = "retention.topics"
AGES = tuple(each.name for each in fields(Retention) if each.name != "topics")
"""The fields that are one age."""
KINDS: tuple[Kind, ...] = get_args(Kind)
_ENDS = {"repeats", "workers"}
"""Fields that cannot be for ever."""
# What is removed at once was never kept: that is said with keep="none", by the consumer.
_LEAST = timedelta(seconds=1)


def kept_for(field: str) -> Callable[[object], timedelta | None]:
    """What reads this field of the retention."""
    return lambda value: _age(value, KEPT + field, ends=field in _ENDS)


def read_topics(value: object) -> dict[str, dict[Kind, timedelta | None]]:
    """Read the ages by pattern and kind."""
    if not isinstance(value, Mapping):
        raise BadOption(f'{TOPICS}={value!r} must be a mapping, as in {{"orders.*": {{"done": "7d"}}}}')
    return {_pattern(pattern): _ages(pattern, ages) for pattern, ages in value.items()}


def topics_in(text: str) -> object:
    """The ages that the text of a variable holds, as JSON; anything else is left for ``read_topics`` to refuse."""
    import json

    try:
        return json.loads(text)
    except ValueError:
        return text


def pieces(value: Mapping[str, object]) -> Iterator[tuple[tuple[str, ...], dict[str, object]]]:
    """The smallest parts that can be read, and where each stands: a mistake in one is told with its own place."""
    for pattern, ages in value.items():
        if isinstance(ages, Mapping) and ages:
            for kind, age in ages.items():
                yield (pattern, kind), {pattern: {kind: age}}
        else:
            yield (pattern,), {pattern: ages}


def read_retention(value: object) -> Retention:
    """Read a whole retention, as it is given in code."""
    if not isinstance(value, Retention):
        raise BadOption(f"retention={value!r} must be a Retention(…), as in Retention(done=timedelta(days=1))")
    read: dict[str, Any] = {name: kept_for(name)(getattr(value, name)) for name in AGES}
    return replace(value, **read, topics=read_topics(value.topics))


def write_age(age: timedelta | None) -> str:
    """An age as people write it."""
    return FOREVER if age is None else spell(age)


def write_topics(topics: Topics) -> str:
    """All the ages in one line; nothing where there are none."""
    rules = (
        f"{pattern} {', '.join(f'{kind} {write_age(age)}' for kind, age in ages.items())}"
        for pattern, ages in topics.items()
    )
    return "; ".join(rules)


def _pattern(pattern: object) -> str:
    try:
        return check_pattern(cast("str", pattern))
    except BadOption as error:
        raise BadOption(f"{TOPICS}: {error}") from None


def _ages(pattern: str, ages: object) -> dict[Kind, timedelta | None]:
    where = f"{TOPICS}[{pattern!r}]"
    if not isinstance(ages, Mapping) or not ages:
        raise BadOption(f'{where}={ages!r} must name what is kept for how long, as in {{"done": "7d", "dead": "90d"}}')
    for kind in ages:
        if kind not in KINDS:
            hint = closest(str(kind), KINDS) or f" There are {', '.join(KINDS)}"
            raise BadOption(f"{where} has no kind {kind!r}.{hint}")
    return {kind: _age(age, f"{where}.{kind}", least=_LEAST) for kind, age in ages.items()}


def _age(value: object, option: str, *, ends: bool = False, least: timedelta = timedelta()) -> timedelta | None:
    if value in (None, FOREVER) and not ends:
        return None
    try:
        return length(value, option, least=least)
    except BadOption as error:
        raise BadOption(str(error) if ends else f"{error}, or {FOREVER!r}") from None
