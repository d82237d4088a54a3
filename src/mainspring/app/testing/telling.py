"""What a failing test says: what ran, what waits, what died, and what to write instead."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from mainspring.app.testing.book import Book
from mainspring.app.testing.values import Ran, shown
from mainspring.model.errors import UnexpectedDeadLetter, Unmet
from mainspring.timing.duration import spell

_LAST = 12


def dead_letter(ran: Ran) -> UnexpectedDeadLetter:
    """Nobody expected this one to die."""
    said = UnexpectedDeadLetter(
        f"{ran.group} gave up on {shown(ran.payload)} from topic {ran.topic!r} at attempt {ran.attempt}: {ran.error}\n"
        f"Where this is what the test is about, write `with kit.expect_dead({ran.group!r}):` around the call"
    )
    said.__cause__ = ran.exception
    return said


def nothing_died(whose: str, book: Book, first: int) -> Unmet:
    """Somebody was to die, and all are alive."""
    runs = book.runs[first:]
    text = f"a dead letter{whose} was expected, and none came"
    return _because(Unmet("\n".join([text, *_story(book, runs)])), runs)


def never(predicate: Callable[[], object], within: timedelta, now: datetime, book: Book, runs: Sequence[Ran]) -> Unmet:
    """The predicate did not come true in time."""
    text = f"not within {spell(within)}: {_spelled(predicate)}\nIt is {now:%Y-%m-%d %H:%M:%S} for the kit now"
    return _because(Unmet("\n".join([text, *_story(book, runs)])), runs)


def _because(said: Unmet, runs: Sequence[Ran]) -> Unmet:
    said.__cause__ = next((ran.exception for ran in reversed(runs) if ran.exception is not None), None)
    return said


def _story(book: Book, runs: Sequence[Ran]) -> Iterator[str]:
    yield from _listed("ran", runs[-_LAST:], len(runs), lambda ran: f"{ran.at:%m-%d %H:%M:%S} {ran!r}")
    yield from _listed("pending", book.pending[:_LAST], len(book.pending), repr)
    yield from _listed("dead", book.dead[:_LAST], len(book.dead), repr)
    if book.parked:
        topics = ", ".join(sorted({each.topic for each in book.parked}))
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
