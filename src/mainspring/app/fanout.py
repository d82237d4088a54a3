"""``@app.fanout(…)``: one rhythm over many shards, declared by the function that names them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, cast
from zoneinfo import ZoneInfo

from mainspring.app.consumed import Registrar
from mainspring.app.consumers import ConsumerOptions, Consumers
from mainspring.app.context import Context
from mainspring.app.fanout_code import Declared, check_part, takes_context
from mainspring.app.functions import handler_name, is_reloaded
from mainspring.app.options import length, refuse_unknown
from mainspring.app.planning import slices_topic
from mainspring.model.errors import BadOption, Conflict, LeaseHeld
from mainspring.model.verdict import Done, Snooze
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.duration import Duration, duration
from mainspring.timing.rhythm import every

if TYPE_CHECKING:
    from mainspring.app.advancing import Advancing
    from mainspring.app.planning import Coordinator
    from mainspring.app.recurring import RecurringOptions
    from mainspring.app.registry import Registry

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

_LEAST_LEASE = timedelta(seconds=1)
_JITTER = timedelta(seconds=60)
_WAIT = timedelta(seconds=2)
"""How soon a coordinator looks again whether the other one has finished, or has died and its lease run out."""


class FanoutOptions(TypedDict, total=False):
    """What ``@app.fanout(topic, work_key, …)`` accepts; None is the same as leaving an option out."""

    cron: str | None
    """When a window begins, as a cron expression; either this or ``every``."""
    every: Duration | None
    """How long a window is, as in "15m"."""
    timezone: str | ZoneInfo | None
    """Whose clocks the cron expression goes by ["UTC"]."""
    jitter: Duration | None
    """Over how much time the slices of a window are spread, the same for a slice on every node ["60s", or half of
    ``every`` where that is less]."""
    lease: Duration | None
    """How long a coordinator that has died keeps others from going on in its place ["30s"]."""
    retry: RetryPolicy | str | None
    """When planning is tried again after a failure ["recurring"]."""


class Fanout(Generic[P, R_co]):
    """A registered planner. Calling it is calling the function; ``slices`` registers who does the work of a shard."""

    __name__: str
    __qualname__: str

    def __init__(self, planner: Callable[P, R_co], declared: Declared, code: FanoutCode) -> None:
        functools.update_wrapper(self, planner)
        self._planner = planner
        self._declared = declared
        self._code = code

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the planner itself, here and now."""
        return self._planner(*args, **kwargs)

    def __repr__(self) -> str:
        """For people: whose shards it names."""
        return f"<fan-out {self._declared.shown}, planned by {handler_name(self._planner)}>"

    @property
    def function(self) -> Callable[P, R_co]:
        """The planner as it was written."""
        return self._planner

    @property
    def topic(self) -> str:
        """The topic of the fan-out, without what goes before it on messages."""
        return self._declared.topic

    @property
    def schedule(self) -> str:
        """The schedule of its coordinator, to be paused, altered and triggered like any other."""
        return self._declared.schedule

    def slices(self, *works: str, **options: Unpack[ConsumerOptions]) -> Registrar:
        """Register the consumer of its slices, which takes a ``Slice``; options as ``@app.consumer``.

        Where the planner names works of its own, say which ones this consumer does. Each has one consumer: with its
        success the cursor of the shard is advanced.
        """
        if works and callable(works[0]):
            raise BadOption(f"@{self.__name__}.slices has no parentheses: write @{self.__name__}.slices()")
        refuse_unknown(options, ConsumerOptions.__annotations__, f"@{self.__name__}.slices(…)")
        named = self._declared.works(works, self.__name__)
        return self._code.slices(tuple(slices_topic(self.topic, work) for work in named), options)


class FanoutRegistrar(Protocol):
    """What ``@app.fanout(…)`` returns: it takes the planner and gives back its registered twin."""

    def __call__(self, planner: Callable[P, R_co], /) -> Fanout[P, R_co]:
        """Register the planner."""
        ...


class FanoutCode:
    """The fan-outs of an app's code."""

    def __init__(
        self,
        registry: Registry,
        consumers: Consumers,
        advancing: Advancing,
        coordinator: Callable[[], Coordinator],
    ) -> None:
        self._registry = registry
        self._consumers = consumers
        self._advancing = advancing
        self._coordinator = coordinator
        self._known: dict[tuple[str, str | None], Declared] = {}

    def __iter__(self) -> Iterator[Declared]:
        """In the order of registration."""
        return iter(self._known.values())

    def get(self, topic: str, work: str | None) -> Declared | None:
        """The one that was registered with this work, or without any."""
        return self._known.get((topic, work))

    def find(self, topic: str, work: str | None) -> Declared | None:
        """The one that plans this work."""
        return self._known.get((topic, work)) or self._known.get((topic, None))

    def consumers(self, topic: str) -> dict[str, str]:
        """The groups that advance the cursors of its works, by work, as far as this process knows them."""
        doing = (each for each in self._consumers if self._advancing in each.middleware)
        found = ((slices, each.group) for each in doing for slices in each.topics)
        start = slices_topic(topic, "")
        return {slices.removeprefix(start): group for slices, group in found if slices.startswith(start)}

    def registrar(self, topic: str, work: str | None, options: FanoutOptions) -> FanoutRegistrar:
        """What registers the planner; everything that can be wrong before it is known is raised here."""
        if callable(topic):
            raise BadOption("@app.fanout has no parentheses: write @app.fanout('etl', 'payments', every='15m')")
        refuse_unknown(options, FanoutOptions.__annotations__, "@app.fanout(…)")
        check_part(topic, "topic")
        if work is not None:
            check_part(work, "work_key")
        rhythm = _rhythm(options)
        jitter = length(_given(options, "jitter", _jitter(options.get("every"))), "jitter")
        ttl = length(_given(options, "lease", "30s"), "lease", least=_LEAST_LEASE)

        def register(planner: Any) -> Any:
            plain = planner.function if isinstance(planner, Fanout) else planner
            declared = Declared(topic, work, plain, takes_context(plain), str(rhythm), jitter, ttl)
            self._add(declared, rhythm, options)
            return Fanout(plain, declared, self)

        return cast("FanoutRegistrar", register)

    def slices(self, topics: tuple[str, ...], options: ConsumerOptions) -> Registrar:
        """What registers a consumer of slices, whose success advances their cursors."""
        middleware = (self._advancing, *(options.get("middleware") or ()))
        registrar = self._registry.consumer(topics, {**options, "middleware": middleware})

        def register(function: Any) -> Any:
            for each in self._consumers:
                if self._advancing not in each.middleware:
                    continue  # it only looks on
                taken = next((topic for topic in topics if topic in each.topics), None)
                if taken and each.function is not function and not is_reloaded(each.function, function):
                    raise Conflict(
                        f"the slices of {taken.removeprefix('fanout:')} go to {each.name} already, and one consumer "
                        "advances a cursor: let that one do both, or publish from it to the other"
                    )
            return registrar(function)

        return cast("Registrar", register)

    def _add(self, declared: Declared, rhythm: Any, options: FanoutOptions) -> None:
        key = (declared.topic, declared.work)
        known = self._known.get(key)
        same = known is None or known.planner is declared.planner or is_reloaded(known.planner, declared.planner)
        if known is not None and not same:
            raise Conflict(
                f"the fan-out {declared.shown} is planned by {handler_name(known.planner)} already: give this one "
                "another work"
            )
        for topic, work in self._known:
            if topic == declared.topic and work != declared.work and None in (work, declared.work):
                raise Conflict(
                    f"one planner of {topic!r} names works of its own, so there can be no other: give each of them a "
                    f"work, @app.fanout({topic!r}, 'payments', …)"
                )
        if known is None:
            recurring: RecurringOptions = {
                "name": declared.schedule,
                "group": declared.schedule,
                "timezone": options.get("timezone"),
                "retry": options.get("retry"),
                "concurrency": 1,
            }
            self._registry.recurring(rhythm, recurring)(self._coordination(key, declared.planner))
        self._known[key] = declared

    def _coordination(self, key: tuple[str, str | None], planner: Any) -> Callable[[Context], Any]:
        async def coordinate(ctx: Context) -> Done | Snooze:
            declared = self._known[key]
            doing = self.consumers(declared.topic)
            asking = declared.asking(ctx.scheduled_for, ctx, cause=ctx.message_id, consumers=doing)
            try:
                return Done(str(await self._coordinator().plan(asking, ctx)))
            except LeaseHeld as error:
                return Snooze(_WAIT, f"another coordinator is at it: {error.holder or 'not known which'}")

        # What is shown and complained of is the planner.
        coordinate.__name__, coordinate.__qualname__ = planner.__name__, planner.__qualname__
        coordinate.__module__ = planner.__module__
        return coordinate


def _rhythm(options: FanoutOptions) -> Any:
    cron, period = options.get("cron"), options.get("every")
    if (cron is None) == (period is None):
        how = "both were given" if cron is not None else "neither was given"
        raise BadOption(f"@app.fanout(…) takes cron='0 2 * * *' or every='15m', and {how}")
    if period is None:
        return cron
    try:
        return every(period)
    except ValueError as error:
        raise BadOption(f"every={period!r}: {error}") from None


def _jitter(period: Duration | None) -> timedelta:
    """By default, well within a window: a slice that still waits at the next has its shard left out of that."""
    return _JITTER if period is None else min(_JITTER, duration(period) / 2)


def _given(options: FanoutOptions, name: str, default: object) -> object:
    value = options.get(name)
    return default if value is None else value
