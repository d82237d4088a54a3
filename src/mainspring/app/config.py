"""The options of an app: read once, validated, frozen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from functools import partial
from typing import Any, Literal, TypedDict, cast, get_args

from mainspring.app.names import check_group, check_namespace, check_pattern, check_schema, tables
from mainspring.app.options import (
    Setting,
    choice,
    closest,
    default_policy,
    flag,
    flag_in,
    given,
    length,
    refuse_unknown,
    whole,
    whole_in,
)
from mainspring.model.errors import BadOption
from mainspring.model.message import Keep
from mainspring.model.retention import Kind, Retention
from mainspring.model.schedule import MISFIRE_AFTER, UNLIMITED, DeadLetters
from mainspring.timing.backoff import MESSAGES, RetryPolicy
from mainspring.timing.duration import Duration, spell

Topics = Mapping[str, Mapping[Kind, timedelta | None]]

FOREVER = "forever"
"""How None is spelled as text."""
KEPT = "retention."
"""Prefix of the retention's fields among settings."""
TOPICS = "retention.topics"
AGES = tuple(each.name for each in fields(Retention) if each.name != "topics")
"""Fields that hold one age."""
KINDS: tuple[Kind, ...] = get_args(Kind)
_ENDS = {"repeats", "workers"}
"""Fields that cannot be forever."""
# To remove a record at once is keep="none", an option of the consumer.
_LEAST = timedelta(seconds=1)


def kept_for(field: str) -> Callable[[object], timedelta | None]:
    """Return the reader of a retention field."""
    return lambda value: _age(value, KEPT + field, ends=field in _ENDS)


def read_topics(value: object) -> dict[str, dict[Kind, timedelta | None]]:
    """Read the ages by pattern and kind."""
    if not isinstance(value, Mapping):
        raise BadOption(f'{TOPICS}={value!r} must be a mapping, as in {{"orders.*": {{"done": "7d"}}}}')
    return {_pattern(pattern): _ages(pattern, ages) for pattern, ages in value.items()}


def topics_in(text: str) -> object:
    """Parse the JSON ages of a variable; anything else is left for ``read_topics`` to reject."""
    import json

    try:
        return json.loads(text)
    except ValueError:
        return text


def pieces(value: Mapping[str, object]) -> Iterator[tuple[tuple[str, ...], dict[str, object]]]:
    """Yield the smallest readable parts with their keys, so that an error names its own place."""
    for pattern, ages in value.items():
        if isinstance(ages, Mapping) and ages:
            for kind, age in ages.items():
                yield (pattern, kind), {pattern: {kind: age}}
        else:
            yield (pattern,), {pattern: ages}


def read_retention(value: object) -> Retention:
    """Read a whole retention, as given in code."""
    if not isinstance(value, Retention):
        raise BadOption(f"retention={value!r} must be a Retention(…), as in Retention(done=timedelta(days=1))")
    read: dict[str, Any] = {name: kept_for(name)(getattr(value, name)) for name in AGES}
    return replace(value, **read, topics=read_topics(value.topics))


def write_age(age: timedelta | None) -> str:
    """Format an age for people."""
    return FOREVER if age is None else spell(age)


def write_topics(topics: Topics) -> str:
    """Format all ages in one line; empty without any."""
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


def time_limit(value: object, option: str) -> timedelta | None:
    """Read a limit of time; "none" is none."""
    return None if value is None or value == UNLIMITED else length(value, option, least=timedelta(milliseconds=1))


Preset = Literal["production", "development"]
KEEPS: tuple[Keep, ...] = ("all", "failures", "none")
MOST_AT_ONCE = 10_000
"""The most that a concurrency may be."""
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


class AppOptions(TypedDict, total=False):
    """Options of ``Mainspring(url, …)``; None is the same as leaving an option out."""

    name: str | None
    """The owner of groups ["app"]: a group belongs to one app."""
    namespace: str | None
    """Separate tables for each environment on one database: the schema ``mainspring-staging``."""
    schema: str | None
    """The schema on PostgreSQL, the prefix of the tables on SQLite ["mainspring"]."""
    auto_migrate: bool | None
    """Create and upgrade the tables when opened [False; True in development; SQLite and memory always do]."""
    payload_limit: int | None
    """The most bytes an encoded payload may have [256 KiB]."""
    claim_time: Duration | None
    """How long a claim lasts without a heartbeat ["30s"]."""
    grace: Duration | None
    """How long running handlers may go on after the first signal to stop ["25s"]."""
    idle_poll: Duration | None
    """The longest an idle worker sleeps before it polls again ["5s"]."""
    timeout: Duration | None
    """The time limit of handlers that name none ["30m"]."""
    recurring_timeout: Duration | None
    """The time limit of recurring functions that name none ["12h"]; None or "none": none."""
    misfire_after: Duration | None
    """How late an occurrence of a schedule that names no time of its own may be before it counts as missed ["1m"]."""
    dead: DeadLetters | None
    """Which dead letters of a schedule are kept per group: the latest, which counts earlier ones, or all ["latest"]."""
    retry: RetryPolicy | str | None
    """When consumers and queues that name no policy retry: a policy or a preset's name ["messages"]."""
    keep: Keep | None
    """How much history deliveries leave ["failures"; "all" in development]."""
    preset: Preset | None
    """"production", or "development", which keeps every run for a day and creates the tables by itself."""
    retention: Retention | None
    """Retention of finished records."""
    pool_size: int | None
    """How many connections publishing and reading share [4]. PostgreSQL only."""
    require_tls: bool | None
    """Whether every connection must be encrypted, or is refused [False]. PostgreSQL only."""
    handler_pool: int | None
    """How many connections a worker lends to consumers with ``transactional=True`` [10]."""
    worker_concurrency: int | None
    """How many messages a worker may have waiting or running at once, over all of its consumers [as many as their
    ``concurrency`` allows]."""
    version: int | None
    """The release of the app's code [0]: one with a lower number never overwrites the schedules of a higher one."""
    durable: bool | None
    """Whether a commit survives a power cut, not only a crash of the process [False]. SQLite only; PostgreSQL's own
    settings decide there."""
    newer_wait: Duration | None
    """How long a message of a newer version than this code knows waits for a worker that can read it ["1d"]."""
    tracing: bool | None
    """Whether publishing and processing make spans [if OpenTelemetry is configured in the process]."""


def _by(read: Callable[..., object], **bounds: object) -> dict[str, Any]:
    """Return the metadata of a field of ``Options``: the reader of its values, whose errors begin with its name."""
    return {"read": read, "bounds": bounds}


def _app_name(value: object, option: str) -> str:
    try:
        return check_group(value)
    except BadOption as error:
        raise BadOption(str(error).replace("group", option, 1)) from None


@dataclass(frozen=True, slots=True)
class Options:
    """Every option of an app, with its default. Arguments, variables and files are read by this table."""

    name: str = field(default="app", metadata=_by(_app_name))
    namespace: str | None = field(default=None, metadata=_by(check_namespace))
    schema: str = field(default="mainspring", metadata=_by(check_schema))
    auto_migrate: bool = field(default=False, metadata=_by(flag))
    payload_limit: int = field(default=256 * 1024, metadata=_by(whole, least=1, most=1 << 30))
    # Below a few seconds an ordinary pause of the database would lose claims of live workers.
    claim_time: timedelta = field(default=30 * _SECOND, metadata=_by(length, least=2 * _SECOND, most=_DAY))
    grace: timedelta = field(default=25 * _SECOND, metadata=_by(length, most=_DAY))
    idle_poll: timedelta = field(
        default=5 * _SECOND, metadata=_by(length, least=_SECOND / 100, most=timedelta(minutes=5))
    )
    timeout: timedelta = field(default=timedelta(minutes=30), metadata=_by(length, least=_SECOND / 1000))
    recurring_timeout: timedelta | None = field(default=timedelta(hours=12), metadata=_by(time_limit))
    misfire_after: timedelta = field(default=MISFIRE_AFTER, metadata=_by(length, most=timedelta(days=366)))
    dead: DeadLetters = field(default="latest", metadata=_by(choice, allowed=get_args(DeadLetters)))
    retry: RetryPolicy = field(default=MESSAGES, metadata=_by(default_policy))
    keep: Keep = field(default="failures", metadata=_by(choice, allowed=KEEPS))
    preset: Preset = field(default="production", metadata=_by(choice, allowed=get_args(Preset)))
    retention: Retention = field(default_factory=Retention)
    pool_size: int = field(default=4, metadata=_by(whole, least=1, most=1000))
    require_tls: bool = field(default=False, metadata=_by(flag))
    handler_pool: int = field(default=10, metadata=_by(whole, least=1, most=1000))
    worker_concurrency: int | None = field(default=None, metadata=_by(whole, least=1, most=MOST_AT_ONCE))
    version: int = field(default=0, metadata=_by(whole, least=0, most=2**62))
    durable: bool = field(default=False, metadata=_by(flag))
    newer_wait: timedelta = field(default=_DAY, metadata=_by(length, most=timedelta(days=365)))
    tracing: bool | None = field(default=None, metadata=_by(flag))
    schedules: Mapping[str, Setting] = field(default_factory=dict, compare=False, repr=False)
    """The configuration of schedules, by name; read when they are declared."""

    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """The source of each value: ``argument``, ``MAINSPRING_GRACE``, ``mainspring.toml:3``, ``preset development`` or
    ``default``. The fields of ``retention`` are ``retention.done`` and so on; ``url`` is here too."""

    @classmethod
    def read(cls, options: Mapping[str, object], *layers: Mapping[str, Setting]) -> Options:
        """Validate arguments. The rest comes from the layers, lowest first, the preset and the defaults."""
        refuse_unknown(options, AppOptions.__annotations__, "Mainspring(…)")
        settings: dict[str, Setting] = {}
        for layer in (*layers, _arguments(options)):
            settings |= layer
        preset = settings.get("preset")
        if preset is not None:
            settings = _PRESETS[preset.value] | settings
        # An option that is set to None or False is set.
        values: dict[str, Any] = {name: settings[name].value for name in NAMES if name in settings}
        kept = {name: values.pop(KEPT + name) for name in RETENTION if KEPT + name in values}
        sources = {name: settings[name].source if name in settings else "default" for name in NAMES}
        schedules = {
            name.removeprefix(SCHEDULES): setting for name, setting in settings.items() if name.startswith(SCHEDULES)
        }
        read = cls(**values, retention=Retention(**kept), schedules=schedules, sources=sources)
        tables(read.schema, read.namespace)  # rejected here, not on opening
        return read

    @property
    def tables(self) -> str:
        """The schema on PostgreSQL, the prefix of the tables on SQLite: those of the namespace, where there is one."""
        return tables(self.schema, self.namespace)


def unnamed(options: Options) -> tuple[str, str] | None:
    """Return what is wrong with the default name, and what to do; None if it has a name, or is in development."""
    if options.sources.get("name") != "default" or options.preset == "development":
        return None
    summary = f"the app has the default name {options.name!r}: another one without a name would be the same app"
    return summary, "write Mainspring(…, name='shop'), or set MAINSPRING_NAME"


def _arguments(options: Mapping[str, object]) -> dict[str, Setting]:
    values = {name: READERS[name](value) for name, value in given(options).items()}
    if "recurring_timeout" in options:
        values.setdefault("recurring_timeout", None)  # here None is a value: no limit
    retention = values.pop("retention", None)
    if retention is not None:
        # It has a value for every field, so it sets all of them.
        values |= {KEPT + name: getattr(retention, name) for name in RETENTION}
    return {name: Setting(value, "argument") for name, value in values.items()}


SCHEDULES = "schedules."
"""Prefix of the names of schedules among settings."""
RETENTION = (*AGES, "topics")

_FIELDS = {each.name: each.metadata for each in fields(Options) if each.metadata}

READERS: dict[str, Callable[[object], object]] = {
    **{name: partial(each["read"], option=name, **each["bounds"]) for name, each in _FIELDS.items()},
    "retention": read_retention,
    **{KEPT + name: kept_for(name) for name in AGES},
    TOPICS: read_topics,
}
"""The reader of each option; its error text begins with the option's name."""

NAMES = tuple(name for name in READERS if name != "retention")
"""Every option with its own source: the retention has one for each of its fields."""

_CONVERTERS: dict[object, Callable[[str], object]] = {flag: flag_in, whole: whole_in}
FROM_TEXT: dict[str, Callable[[str], object]] = {
    **{name: _CONVERTERS[each["read"]] for name, each in _FIELDS.items() if each["read"] in _CONVERTERS},
    TOPICS: topics_in,
}
"""Converters from a variable's text to an argument's value; the other options take text."""

_PRESETS: dict[Any, dict[str, Setting]] = {
    "production": {},
    "development": {
        name: Setting(value, "preset development")
        for name, value in {"auto_migrate": True, "keep": "all", "retention.done": _DAY}.items()
    },
}
