"""``@app.fanout(…)``: one rhythm over many shards, declared by the function that lists them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, Optional, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from mainspring.app.consume.consumer import Registrar
from mainspring.app.consume.consumers import ConsumerOptions, Consumers
from mainspring.app.consume.context import Context
from mainspring.app.consume.injection import resolve
from mainspring.app.names import check_name, check_topic, handler_name, is_reloaded
from mainspring.app.options import length, refuse_unknown
from mainspring.model.errors import BadOption, BadSignature, Conflict, LeaseHeld
from mainspring.model.schedule import Note
from mainspring.model.verdict import Done, Snooze
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.duration import Duration, duration
from mainspring.timing.rhythm import every

if TYPE_CHECKING:
    from mainspring.app.consume.middleware import CursorAdvance
    from mainspring.app.fanout.coordinator import Coordinator
    from mainspring.app.registry import Registry
    from mainspring.app.schedule.recurring import RecurringOptions

Named = tuple[str, str]
"""(work, shard), as yielded by a planner, checked."""
Argument = tuple[str | None, Literal["ctx", "topic", "work"]]
"""What a planner is passed, and the name of its parameter where it is not passed by position."""
_LONGEST = 80
"""The longest topic or work: both are part of topics, groups and leases."""


@dataclass(slots=True)
class FanoutDeclaration:
    """A checked declaration of a fan-out."""

    topic: str
    work: str | None
    """None: the planner yields works."""
    planner: Callable[..., Any]
    takes: tuple[Argument, ...]
    """What the planner is called with."""
    rhythm: str
    jitter: timedelta
    ttl: timedelta
    every: timedelta | None = None
    """The least time between two windows of a shard; None: every window."""

    @property
    def shown(self) -> str:
        """As people write it."""
        return self.topic if self.work is None else f"{self.topic} {self.work}"

    @property
    def lease(self) -> str:
        """The coordinator's lease."""
        return f"fanout:{self.topic}" if self.work is None else slices_topic(self.topic, self.work)

    @property
    def schedule(self) -> str:
        """The name of its coordinator, as a schedule and as a group."""
        return schedule_name(self.topic, self.work)

    def works(self, named: tuple[str, ...], planner: str) -> tuple[str, ...]:
        """Return the works of a slice consumer."""
        if self.work is not None:
            if named not in ((), (self.work,)):
                raise BadOption(f"{self.shown} has one work, {self.work!r}: write @{planner}.slices() for it")
            return (self.work,)
        if not named:
            raise BadOption(
                f"the planner of {self.topic} yields its own works: name those of this consumer, as in "
                f"@{planner}.slices('payments', 'refunds')"
            )
        return tuple(check_part(work, "work") for work in named)

    @property
    def is_async(self) -> bool:
        """Whether the planner runs on the loop; a plain one may block."""
        return inspect.iscoroutinefunction(self.planner) or inspect.isasyncgenfunction(self.planner)

    def call(self, ctx: Context, work: str | None) -> Any:
        """Call the planner. ``work`` is the only one to plan; None: all that it yields."""
        values = {"ctx": ctx, "topic": self.topic, "work": work}
        args = [values[takes] for name, takes in self.takes if name is None]
        return self.planner(*args, **{name: values[takes] for name, takes in self.takes if name is not None})

    def read(self, named: object) -> Named:
        """Return (work, shard) of a yielded value. Raises BadOption."""
        if isinstance(named, str):
            if self.work is None:
                raise BadOption(
                    f"the planner of {self.topic} yields {named!r} without a work: yield (shard, work), or add it "
                    f"to @app.fanout({self.topic!r}, 'work', …)"
                )
            return self.work, check_name(named, "shard")
        if not isinstance(named, tuple) or len(named) != 2:  # noqa: PLR2004 - a pair
            raise BadOption(f"the planner of {self.shown} yields {named!r}: yield a shard as text, or (shard, work)")
        shard, work = named
        if self.work is not None and work != self.work:
            raise BadOption(
                f"the planner of {self.shown} yields the work {work!r} of shard {shard!r}: yield only the shard, or "
                f"remove the work from @app.fanout({self.topic!r}, …)"
            )
        return check_part(work, "work"), check_name(shard, "shard")


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A request to plan one window, of a fan-out or one of its shards."""

    declared: FanoutDeclaration
    work: str | None
    """The only work to plan."""
    window: datetime
    ctx: Context
    """For a planner that takes one."""
    consumers: Mapping[str, str]
    """The group that consumes a work, if this process knows it."""
    shard: str | None = None
    """The only shard to plan."""
    by_hand: bool = False
    """Requested manually: no jitter applies, and a single shard is never too early."""
    cause: UUID | None = None
    note: Note | None = None
    """The requester, for the audit log."""


def slices_topic(topic: str, work: str) -> str:
    """Return the topic of a work's slices."""
    return f"fanout:{topic}:{work}"


def schedule_name(topic: str, work: str | None) -> str:
    """Return the coordinator's schedule name."""
    return f"plan:{topic}" if work is None else f"plan:{topic}:{work}"


def check_part(value: object, option: str) -> str:
    """Return ``value`` if it is valid as a topic or work: they are parts of other names."""
    name = check_name(value, option)
    if len(name) > _LONGEST:
        raise BadOption(f"{option}={name[:40] + '…'!r} has {len(name)} characters: use at most {_LONGEST}")
    if bad := next((each for each in ":|" if each in name), None):
        raise BadOption(f"{option}={name!r} has a {bad!r}, which separates topic, work and shard: use '.', '-' or '_'")
    try:
        check_topic(name)
    except BadOption as error:
        raise BadOption(str(error).replace("topic", option, 1)) from None
    return name


def read_arguments(planner: Any) -> tuple[Argument, ...]:
    """Return what the planner takes: its context, the topic, the work. Raises BadSignature for other parameters."""
    if not inspect.isroutine(planner):
        raise BadSignature(f"@app.fanout(…) goes above a function that yields shards, not {planner!r}")
    name = handler_name(planner)
    parameters = list(inspect.signature(planner).parameters.values())
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    free = [each for each in parameters if each.default is each.empty and each.kind not in rest]
    found = [_argument(each, planner, name) for each in free]
    if len(set(found)) < len(found):
        raise _bad_planner(name)
    by_name = [each.name if each.kind is each.KEYWORD_ONLY else None for each in free]
    return tuple(zip(by_name, found, strict=True))


def _argument(parameter: inspect.Parameter, planner: Any, name: str) -> Literal["ctx", "topic", "work"]:
    annotation = resolve(parameter, planner, name)
    bare = annotation is parameter.empty
    if annotation is Context or (bare and parameter.name == "ctx"):
        return "ctx"
    if parameter.name == "topic" and (bare or annotation is str):
        return "topic"
    if parameter.name == "work" and (bare or annotation in (str, str | None, Optional[str])):  # noqa: UP045
        return "work"
    raise _bad_planner(name)


def _bad_planner(name: str) -> BadSignature:
    return BadSignature(
        f"the planner {name} takes nothing, or some of `ctx`, `topic: str` and `work: str | None`: give other "
        "parameters a default"
    )


P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

_LEAST_LEASE = timedelta(seconds=1)
_JITTER = timedelta(seconds=60)
_WAIT = timedelta(seconds=2)
"""How soon a coordinator retries while another one plans, or its lease has not expired."""


class FanoutOptions(TypedDict, total=False):
    """Options of ``@app.fanout(topic, work_key, …)``; None is the same as omitting an option."""

    cron: str | None
    """When a window begins, as a cron expression."""
    every: Duration | None
    """How long a window is, as in "15m"; with ``cron``, the least time between two windows of a shard."""
    timezone: str | ZoneInfo | None
    """The time zone of the cron expression ["UTC"]."""
    jitter: Duration | None
    """The time over which a window's slices are spread, the same for a slice on every node ["60s", or half of ``every``
    if that is less]."""
    lease: Duration | None
    """How long a dead coordinator blocks its successor ["30s"]."""
    retry: RetryPolicy | str | None
    """How planning is retried after a failure ["recurring"]."""


class Fanout(Generic[P, R_co]):
    """A registered planner. Calling it calls the function; ``slices`` registers the consumer of its slices."""

    __name__: str
    __qualname__: str

    def __init__(self, planner: Callable[P, R_co], declared: FanoutDeclaration, code: FanoutCode) -> None:
        functools.update_wrapper(self, planner)
        self._planner = planner
        self._declared = declared
        self._code = code

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the planner itself."""
        return self._planner(*args, **kwargs)

    def __repr__(self) -> str:
        """Return topic, work and planner."""
        return f"<fan-out {self._declared.shown}, planned by {handler_name(self._planner)}>"

    @property
    def function(self) -> Callable[P, R_co]:
        """The planner as it was written."""
        return self._planner

    @property
    def topic(self) -> str:
        """The topic of the fan-out, without the prefix on messages."""
        return self._declared.topic

    @property
    def schedule(self) -> str:
        """The schedule of its coordinator, which can be paused, altered and triggered."""
        return self._declared.schedule

    def slices(self, *works: str, **options: Unpack[ConsumerOptions]) -> Registrar:
        """Register the consumer of its slices, which takes a ``Slice``; options as ``@app.consumer``.

        If the planner yields works, name those of this consumer. Each work has one consumer: its success advances the
        cursor of the shard.
        """
        if works and callable(works[0]):
            raise BadOption(f"@{self.__name__}.slices has no parentheses: write @{self.__name__}.slices()")
        refuse_unknown(options, ConsumerOptions.__annotations__, f"@{self.__name__}.slices(…)")
        named = self._declared.works(works, self.__name__)
        return self._code.slices(tuple(slices_topic(self.topic, work) for work in named), options)


class FanoutRegistrar(Protocol):
    """The type of ``@app.fanout(…)``: takes the planner, returns its registered twin."""

    def __call__(self, planner: Callable[P, R_co], /) -> Fanout[P, R_co]:
        """Register the planner."""
        ...


class FanoutCode:
    """The fan-outs of an app's code."""

    def __init__(
        self,
        registry: Registry,
        consumers: Consumers,
        advancing: CursorAdvance,
        coordinator: Callable[[], Coordinator],
    ) -> None:
        self._registry = registry
        self._consumers = consumers
        self._advancing = advancing
        self._coordinator = coordinator
        self._known: dict[tuple[str, str | None], FanoutDeclaration] = {}

    def __iter__(self) -> Iterator[FanoutDeclaration]:
        """Iterate by registration."""
        return iter(self._known.values())

    def get(self, topic: str, work: str | None) -> FanoutDeclaration | None:
        """Return the one registered with this work, or without one."""
        return self._known.get((topic, work))

    def find(self, topic: str, work: str | None) -> FanoutDeclaration | None:
        """Return its declaration."""
        return self._known.get((topic, work)) or self._known.get((topic, None))

    def consumers(self, topic: str) -> dict[str, str]:
        """Return the groups that advance its cursors, by work, as far as this process knows them."""
        doing = (each for each in self._consumers if self._advancing in each.middleware)
        found = ((slices, each.group) for each in doing for slices in each.topics)
        start = slices_topic(topic, "")
        return {slices.removeprefix(start): group for slices, group in found if slices.startswith(start)}

    def registrar(self, topic: str, work: str | None, options: FanoutOptions) -> FanoutRegistrar:
        """Return the planner's decorator; raises every error that needs no planner."""
        if callable(topic):
            raise BadOption("@app.fanout has no parentheses: write @app.fanout('etl', 'payments', every='15m')")
        refuse_unknown(options, FanoutOptions.__annotations__, "@app.fanout(…)")
        check_part(topic, "topic")
        if work is not None:
            check_part(work, "work_key")
        rhythm, least = _rhythm(options)
        jitter = length(
            _given(options, "jitter", _jitter(None if options.get("cron") else options.get("every"))), "jitter"
        )
        ttl = length(_given(options, "lease", "30s"), "lease", least=_LEAST_LEASE)

        def register(planner: Any) -> Any:
            plain = planner.function if isinstance(planner, Fanout) else planner
            declared = FanoutDeclaration(topic, work, plain, read_arguments(plain), str(rhythm), jitter, ttl, least)
            self._add(declared, rhythm, options)
            return Fanout(plain, declared, self)

        return cast("FanoutRegistrar", register)

    def slices(self, topics: tuple[str, ...], options: ConsumerOptions) -> Registrar:
        """Return the decorator of a consumer whose success advances cursors."""
        middleware = (self._advancing, *(options.get("middleware") or ()))
        registrar = self._registry.consumer(topics, {**options, "middleware": middleware})

        def register(function: Any) -> Any:
            for each in self._consumers:
                if self._advancing not in each.middleware:
                    continue  # it advances none
                taken = next((topic for topic in topics if topic in each.topics), None)
                if taken and each.function is not function and not is_reloaded(each.function, function):
                    raise Conflict(
                        f"the slices of {taken.removeprefix('fanout:')} already go to {each.name}, and one consumer "
                        "advances a cursor: let it do both, or publish from it to the other"
                    )
            return registrar(function)

        return cast("Registrar", register)

    def _add(self, declared: FanoutDeclaration, rhythm: Any, options: FanoutOptions) -> None:
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
                    f"one planner of {topic!r} yields its own works, so there can be no other: give each a "
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
            assert ctx.scheduled_for is not None, "an occurrence has a due time"
            request = PlanRequest(declared, declared.work, ctx.scheduled_for, ctx, doing, cause=ctx.message_id)
            try:
                return Done(str(await self._coordinator().plan(request, ctx)))
            except LeaseHeld as error:
                return Snooze(_WAIT, f"another coordinator plans: {error.holder or 'unknown holder'}")

        # Views and errors name the planner.
        coordinate.__name__, coordinate.__qualname__ = planner.__name__, planner.__qualname__
        coordinate.__module__ = planner.__module__
        return coordinate


def _rhythm(options: FanoutOptions) -> tuple[Any, timedelta | None]:
    """Return the rhythm of windows, and the least time between two of a shard."""
    cron, period = options.get("cron"), options.get("every")
    if cron is not None:
        return cron, None if period is None else length(period, "every")
    if period is None:
        raise BadOption("@app.fanout(…) takes cron='0 2 * * *', every='15m' or both: neither was given")
    try:
        return every(period), None
    except ValueError as error:
        raise BadOption(f"every={period!r}: {error}") from None


def _jitter(period: Duration | None) -> timedelta:
    """Return the default, well within a window: a shard with an unfinished slice is skipped."""
    return _JITTER if period is None else min(_JITTER, duration(period) / 2)


def _given(options: FanoutOptions, name: str, default: object) -> object:
    value = options.get(name)
    return default if value is None else value
