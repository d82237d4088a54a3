"""The options of an app: read once, validated, frozen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal, TypedDict, cast

from mainspring.app.names import Namespace, check_group, check_namespace, check_schema
from mainspring.app.options import choice, flag, given, length, refuse_unknown, whole
from mainspring.model.errors import BadOption
from mainspring.model.message import Keep
from mainspring.model.views import Retention
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
    """Goes before every stored topic and group, so that environments on one database do not meet."""
    schema: str | None
    """The schema on PostgreSQL, the prefix of the tables on SQLite ["mainspring"]."""
    auto_migrate: bool | None
    """Create and upgrade the tables when opened [False; SQLite and memory always do]."""
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
    """"production", or "development", which keeps every run for a day."""
    retention: Retention | None
    """How long what is over is kept."""
    pool_size: int | None
    """How many connections publishing and reading share [4]. PostgreSQL only."""
    durable: bool | None
    """Whether a commit survives a power cut, not only a crash of the process [False]. SQLite only; PostgreSQL's own
    settings decide there."""


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
    durable: bool = False

    @classmethod
    def read(cls, options: Mapping[str, object]) -> Options:
        """Validate the options given; the preset fills in for the ones that are not."""
        refuse_unknown(options, cls.__dataclass_fields__, "Mainspring(…)")
        values = given(options)
        preset = cast("Preset", choice(values.pop("preset", "production"), ("production", "development"), "preset"))
        start = _PRESETS[preset]
        return replace(start, **{name: _READERS[name](value) for name, value in values.items()})  # type: ignore[arg-type]

    @property
    def names(self) -> Namespace:
        """What goes before stored names."""
        return Namespace.of(self.namespace)


_PRESETS: dict[Preset, Options] = {
    "production": Options(),
    "development": Options(preset="development", keep="all", retention=Retention(done=_DAY)),
}


def _app_name(value: object) -> str:
    try:
        return check_group(value)
    except BadOption as error:
        raise BadOption(str(error).replace("group", "name", 1)) from None


def _retention(value: object) -> Retention:
    if not isinstance(value, Retention):
        raise BadOption(f"retention={value!r} must be a Retention(…), as in Retention(done=timedelta(days=1))")
    return value


_READERS: dict[str, Callable[[object], object]] = {
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
    "retention": _retention,
    "pool_size": lambda value: whole(value, "pool_size", least=1, most=1000),
    "durable": lambda value: flag(value, "durable"),
}
