"""The options of an app: read once, validated, frozen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, TypedDict

from mainspring.app.names import check_group, check_namespace, check_schema, tables
from mainspring.app.options import Setting, choice, flag, flag_in, given, length, refuse_unknown, whole, whole_in
from mainspring.app.retaining import AGES, KEPT, TOPICS, kept_for, read_retention, read_topics, topics_in
from mainspring.model.errors import BadOption
from mainspring.model.message import Keep
from mainspring.model.retention import Retention
from mainspring.timing.duration import Duration

Preset = Literal["production", "development"]
KEEPS: tuple[Keep, ...] = ("all", "failures", "none")
_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


class AppOptions(TypedDict, total=False):
    """What ``Mainspring(url, …)`` accepts; None is the same as leaving an option out."""

    name: str | None
    """Whose groups these are ["app"]: a group belongs to one app."""
    namespace: str | None
    """Has tables of its own, so that environments on one database do not meet: the schema ``mainspring-staging``."""
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
    """The longest an idle worker sleeps before it looks again ["5s"]."""
    timeout: Duration | None
    """The time limit of handlers that name none themselves ["30m"]."""
    keep: Keep | None
    """How much history deliveries leave ["failures"; "all" in development]."""
    preset: Preset | None
    """"production", or "development", which keeps every run for a day and creates the tables by itself."""
    retention: Retention | None
    """How long what is over is kept."""
    pool_size: int | None
    """How many connections publishing and reading share [4]. PostgreSQL only."""
    handler_pool: int | None
    """How many connections a worker lends to consumers with ``transactional=True`` [10]."""
    version: int | None
    """The release of the app's code [0]: one with a lower number never overwrites the schedules of a higher one."""
    durable: bool | None
    """Whether a commit survives a power cut, not only a crash of the process [False]. SQLite only; PostgreSQL's own
    settings decide there."""
    tracing: bool | None
    """Whether publishing and processing make spans [they do where OpenTelemetry is configured in the process]."""


@dataclass(frozen=True, slots=True)
class Options:
    """Every option of an app, with its default."""

    name: str = "app"
    namespace: str | None = None
    schema: str = "mainspring"
    auto_migrate: bool = False
    payload_limit: int = 256 * 1024
    claim_time: timedelta = timedelta(seconds=30)
    grace: timedelta = timedelta(seconds=25)
    idle_poll: timedelta = timedelta(seconds=5)
    timeout: timedelta = timedelta(minutes=30)
    keep: Keep = "failures"
    preset: Preset = "production"
    retention: Retention = field(default_factory=Retention)
    pool_size: int = 4
    handler_pool: int = 10
    version: int = 0
    durable: bool = False
    tracing: bool | None = None
    schedules: Mapping[str, Setting] = field(default_factory=dict, compare=False, repr=False)
    """What configuration says of schedules, by name; read when they are declared."""

    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Where each value is from: ``argument``, ``MAINSPRING_GRACE``, ``mainspring.toml:3``, ``preset development`` or
    ``default``. The fields of ``retention`` are ``retention.done`` and so on; ``url`` is here too."""

    @classmethod
    def read(cls, options: Mapping[str, object], *layers: Mapping[str, Setting]) -> Options:
        """Validate arguments. What they leave out is in the layers, lowest first, the preset and the defaults."""
        refuse_unknown(options, AppOptions.__annotations__, "Mainspring(…)")
        settings: dict[str, Setting] = {}
        for layer in (*layers, _arguments(options)):
            settings |= layer
        preset = settings.get("preset")
        if preset is not None:
            settings = _PRESETS[preset.value] | settings
        # A setting and its value are two things: what is set to None or False is set.
        values: dict[str, Any] = {name: settings[name].value for name in NAMES if name in settings}
        kept = {name: values.pop(KEPT + name) for name in RETENTION if KEPT + name in values}
        sources = {name: settings[name].source if name in settings else "default" for name in NAMES}
        schedules = {
            name.removeprefix(SCHEDULES): setting for name, setting in settings.items() if name.startswith(SCHEDULES)
        }
        read = cls(**values, retention=Retention(**kept), schedules=schedules, sources=sources)
        tables(read.schema, read.namespace)  # refused here, and not when it is opened
        return read

    @property
    def tables(self) -> str:
        """The schema on PostgreSQL, the prefix of the tables on SQLite: those of the namespace, where there is one."""
        return tables(self.schema, self.namespace)


def _arguments(options: Mapping[str, object]) -> dict[str, Setting]:
    values = {name: READERS[name](value) for name, value in given(options).items()}
    retention = values.pop("retention", None)
    if retention is not None:
        # It has a value for every field, so it answers for all of them.
        values |= {KEPT + name: getattr(retention, name) for name in RETENTION}
    return {name: Setting(value, "argument") for name, value in values.items()}


def _app_name(value: object) -> str:
    try:
        return check_group(value)
    except BadOption as error:
        raise BadOption(str(error).replace("group", "name", 1)) from None


SCHEDULES = "schedules."
"""What goes before the name of a schedule among settings."""
RETENTION = (*AGES, "topics")

READERS: dict[str, Callable[[object], object]] = {
    "name": _app_name,
    "namespace": check_namespace,
    "schema": check_schema,
    "auto_migrate": lambda value: flag(value, "auto_migrate"),
    "payload_limit": lambda value: whole(value, "payload_limit", least=1, most=1 << 30),
    # Below a few seconds an ordinary pause of the database would cost claims that nobody has left.
    "claim_time": lambda value: length(value, "claim_time", least=2 * _SECOND, most=_DAY),
    "grace": lambda value: length(value, "grace", most=_DAY),
    "idle_poll": lambda value: length(value, "idle_poll", least=_SECOND / 100, most=timedelta(minutes=5)),
    "timeout": lambda value: length(value, "timeout", least=_SECOND / 1000),
    "keep": lambda value: choice(value, KEEPS, "keep"),
    "preset": lambda value: choice(value, _PRESETS, "preset"),
    "pool_size": lambda value: whole(value, "pool_size", least=1, most=1000),
    "handler_pool": lambda value: whole(value, "handler_pool", least=1, most=1000),
    "version": lambda value: whole(value, "version", least=0, most=2**62),
    "durable": lambda value: flag(value, "durable"),
    "tracing": lambda value: flag(value, "tracing"),
    "retention": read_retention,
    **{KEPT + name: kept_for(name) for name in AGES},
    TOPICS: read_topics,
}
"""What reads each option, and says what is wrong with it in a sentence that begins with its name."""

NAMES = tuple(name for name in READERS if name != "retention")
"""Every option that has a source of its own: the retention has one for each of its fields."""

FROM_TEXT: dict[str, Callable[[str], object]] = {
    "auto_migrate": flag_in,
    "payload_limit": whole_in,
    "pool_size": whole_in,
    "handler_pool": whole_in,
    "version": whole_in,
    "durable": flag_in,
    "tracing": flag_in,
    TOPICS: topics_in,
}
"""What turns the text of a variable into the value an argument would have; the others take text."""

_PRESETS: dict[Any, dict[str, Setting]] = {
    "production": {},
    "development": {
        name: Setting(value, "preset development")
        for name, value in {"auto_migrate": True, "keep": "all", "retention.done": _DAY}.items()
    },
}
