"""Selections of messages, expected dead letters, and the errors of a failing test."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from mainspring.app.message.catalogue import Catalogue
from mainspring.app.options import closest
from mainspring.model.errors import BadOption, UnexpectedDeadLetter, Unmet
from mainspring.storage.patterns import matches
from mainspring.testing.records import Ran, Records, Sent, shown
from mainspring.testing.relays import Relayed
from mainspring.timing.duration import spell

S = TypeVar("S", Sent, Ran, Relayed)
T = TypeVar("T", Sent, Relayed)


def of_topic(sent: Iterable[T], which: Any, catalogue: Catalogue, call: str) -> list[T]:
    """Return what was published or sent on this topic or pattern, or on the topic of this type; everything for None."""
    if which is None:
        return list(sent)
    pattern = which if isinstance(which, str) else catalogue.topic_of(which)
    if pattern is None:
        raise BadOption(f"{call}({which!r}): name a topic or a pattern, or a type with @app.message(topic)")
    return [each for each in sent if matches(pattern, each.topic)]


def with_fields(found: Iterable[S], fields: Mapping[str, Any], kind: Any = None) -> list[S]:
    """Return those whose payload has these values. Raises BadOption for a field that its type does not have."""
    if not fields:
        return list(found)
    if kind is not None:
        _check(kind, fields)
    return [each for each in found if all(_field(each.payload, name) == value for name, value in fields.items())]


def _field(payload: Any, name: str) -> Any:
    if isinstance(payload, Mapping):
        return payload.get(name, dataclasses.MISSING)
    _check(type(payload), [name])
    return getattr(payload, name, dataclasses.MISSING)


def _check(kind: Any, names: Iterable[str]) -> None:
    known = _fields(kind)
    for name in names:
        if known is not None and name not in known:
            raise BadOption(
                f"{getattr(kind, '__qualname__', kind)} has no field {name!r}.{closest(name, known)} "
                f"There are: {', '.join(known)}"
            )


def _fields(kind: Any) -> list[str] | None:
    """Return the names of a payload type's fields; None where any name may be one."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    for mark in ("__struct_fields__", "__pydantic_fields__", "__annotations__"):
        if known := getattr(kind, mark, None):
            return list(known)
    return None


Error = type[BaseException] | tuple[type[BaseException], ...] | str
"""What must have killed it: a type of exception, several, or text that its error contains."""


@dataclass(slots=True)
class Expectation:
    """Dead letters of this group, by this error; None for any."""

    group: str | None
    error: Error | None
    seen: list[Ran] = field(default_factory=list)

    def takes(self, ran: Ran) -> bool:
        """Return whether this one is expected; if so it is kept in ``seen``."""
        if self.group not in (None, ran.group) or not self._by_error(ran):
            return False
        self.seen.append(ran)
        return True

    def __str__(self) -> str:
        """As part of a sentence."""
        of = f" of {self.group}" if self.group else ""
        if self.error is None:
            return of
        if isinstance(self.error, str):
            return f"{of} that says {self.error!r}"
        kinds = self.error if isinstance(self.error, tuple) else (self.error,)
        return f"{of} by {' or '.join(kind.__qualname__ for kind in kinds)}"

    def _by_error(self, ran: Ran) -> bool:
        if self.error is None:
            return True
        if isinstance(self.error, str):
            return self.error in (ran.error or "")
        return isinstance(ran.exception, self.error)


_LAST = 12


def dead_letter(ran: Ran) -> UnexpectedDeadLetter:
    """Return the error for a dead letter that was not expected."""
    error = UnexpectedDeadLetter(
        f"{ran.group} gave up on {shown(ran.payload)} from topic {ran.topic!r} at attempt {ran.attempt}: {ran.error}\n"
        f"Where this is what the test is about, write `with kit.expect_dead({ran.group!r}):` around the call"
    )
    error.__cause__ = ran.exception
    return error


def nothing_died(of: str, records: Records, first: int) -> Unmet:
    """Return the error for an expected dead letter that did not come."""
    runs = records.runs[first:]
    text = f"a dead letter{of} was expected, and none came"
    return _because(Unmet("\n".join([text, *_story(records, runs)])), runs)


def never(
    predicate: Callable[[], object], within: timedelta, now: datetime, records: Records, runs: Sequence[Ran]
) -> Unmet:
    """Return the error for a predicate that did not come true in time."""
    text = f"not within {spell(within)}: {_spelled(predicate)}\nIt is {now:%Y-%m-%d %H:%M:%S} for the kit now"
    return _because(Unmet("\n".join([text, *_story(records, runs)])), runs)


def _because(error: Unmet, runs: Sequence[Ran]) -> Unmet:
    error.__cause__ = next((ran.exception for ran in reversed(runs) if ran.exception is not None), None)
    return error


def _story(records: Records, runs: Sequence[Ran]) -> Iterator[str]:
    yield from _listed("ran", runs[-_LAST:], len(runs), lambda ran: f"{ran.at:%m-%d %H:%M:%S} {ran!r}")
    yield from _listed("pending", records.pending[:_LAST], len(records.pending), repr)
    yield from _listed("dead", records.dead[:_LAST], len(records.dead), repr)
    if records.parked:
        topics = ", ".join(sorted({each.topic for each in records.parked}))
        yield f"published, and no consumer subscribes to it: {topics}"


def _listed(title: str, some: Sequence[object], count: int, line: Callable[..., str]) -> Iterator[str]:
    if not count:
        yield f"{title}: nothing"
        return
    yield f"{title}: {count}" + (f", of which {len(some)}" if len(some) < count else "")
    for each in some:
        yield f"  {line(each)}"


def _spelled(predicate: Callable[[], object]) -> str:
    try:
        source = textwrap.dedent(inspect.getsource(predicate)).strip()
    except (OSError, TypeError):
        source = ""
    if source and "\n" not in source:
        return source
    return str(getattr(predicate, "__qualname__", predicate))
