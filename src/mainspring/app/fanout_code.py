"""A fan-out as code declares it: whose shards are planned, and what its planner may say."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from mainspring.app.context import Context
from mainspring.app.functions import handler_name
from mainspring.app.names import check_name, check_topic
from mainspring.app.parameters import resolve
from mainspring.app.planning import Asking, Named, slices_topic
from mainspring.model.errors import BadOption, BadSignature
from mainspring.model.schedule import Note

_LONGEST = 80
"""Characters of a topic and of a work: together they are part of topics, groups and leases."""


@dataclass(slots=True)
class Declared:
    """A fan-out as code declares it, checked."""

    topic: str
    work: str | None
    """None: the planner names works."""
    planner: Callable[..., Any]
    takes_context: bool
    rhythm: str
    jitter: timedelta
    ttl: timedelta

    @property
    def shown(self) -> str:
        """As people write it."""
        return self.topic if self.work is None else f"{self.topic} {self.work}"

    @property
    def lease(self) -> str:
        """What its coordinator holds."""
        return f"fanout:{self.topic}" if self.work is None else slices_topic(self.topic, self.work)

    @property
    def schedule(self) -> str:
        """The name of its coordinator, as a schedule and as a group."""
        return schedule_name(self.topic, self.work)

    def works(self, named: tuple[str, ...], planner: str) -> tuple[str, ...]:
        """The works that a consumer of slices is for."""
        if self.work is not None:
            if named not in ((), (self.work,)):
                raise BadOption(f"{self.shown} has one work, {self.work!r}: write @{planner}.slices() for it")
            return (self.work,)
        if not named:
            raise BadOption(
                f"the planner of {self.topic} names works of its own: say which ones this consumer does, as in "
                f"@{planner}.slices('payments', 'refunds')"
            )
        return tuple(check_part(work, "work") for work in named)

    def asking(
        self,
        window: datetime,
        ctx: Context,
        *,
        work: str | None = None,
        shard: str | None = None,
        by_hand: bool = False,
        cause: UUID | None = None,
        consumers: Mapping[str, str] | None = None,
        note: Note | None = None,
    ) -> Asking:
        """One window of it, to be planned."""
        planner = self.planner
        is_async = inspect.iscoroutinefunction(planner) or inspect.isasyncgenfunction(planner)
        return Asking(
            self.topic,
            self.work or work,
            self.lease,
            self.ttl,
            self.jitter,
            window,
            (lambda: planner(ctx)) if self.takes_context else planner,
            self.read,
            not is_async,
            shard,
            by_hand,
            cause,
            consumers or {},
            note,
        )

    def read(self, named: object) -> Named:
        """The (work, shard) of what the planner has named. Raises BadOption."""
        if isinstance(named, str):
            if self.work is None:
                raise BadOption(
                    f"the planner of {self.topic} names {named!r} and no work: yield (shard, work), or say the work "
                    f"in @app.fanout({self.topic!r}, 'work', …)"
                )
            return self.work, check_name(named, "shard")
        if not isinstance(named, tuple) or len(named) != 2:  # noqa: PLR2004 - a pair
            raise BadOption(f"the planner of {self.shown} names {named!r}: yield a shard as text, or (shard, work)")
        shard, work = named
        if self.work is not None and work != self.work:
            raise BadOption(
                f"the planner of {self.shown} names the work {work!r} of shard {shard!r}: yield the shard alone, or "
                f"leave the work out of @app.fanout({self.topic!r}, …)"
            )
        return check_part(work, "work"), check_name(shard, "shard")


def schedule_name(topic: str, work: str | None) -> str:
    """The schedule of the coordinator of this fan-out."""
    return f"plan:{topic}" if work is None else f"plan:{topic}:{work}"


def check_part(value: object, option: str) -> str:
    """``value`` if it can be the topic or the work of a fan-out: they are parts of other names."""
    name = check_name(value, option)
    if len(name) > _LONGEST:
        raise BadOption(f"{option}={name[:40] + '…'!r} has {len(name)} characters: at most {_LONGEST} have room")
    if bad := next((each for each in ":|" if each in name), None):
        raise BadOption(f"{option}={name!r} has a {bad!r}, which separates topic, work and shard: use '.', '-' or '_'")
    try:
        check_topic(name)
    except BadOption as error:
        raise BadOption(str(error).replace("topic", option, 1)) from None
    return name


def takes_context(planner: Any) -> bool:
    """Whether the planner asks for its context. Raises BadSignature for what cannot be filled."""
    if not inspect.isroutine(planner):
        raise BadSignature(f"@app.fanout(…) goes above a function that names shards, not {planner!r}")
    name = handler_name(planner)
    wanted = list(inspect.signature(planner).parameters.values())
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    free = [each for each in wanted if each.default is each.empty and each.kind not in rest]
    if not free:
        return False
    [first, *more] = free
    annotation = resolve(first, planner, name)
    is_context = annotation is Context or (annotation is first.empty and first.name == "ctx")
    if more or not is_context or first.kind is first.KEYWORD_ONLY:
        raise BadSignature(f"the planner {name} takes nothing, or `ctx`: what else it needs it finds by itself")
    return True
