"""``@app.recurring(…)``: schedules declared in code, and their overrides from configuration."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, cast, get_args

from mainspring.app.config import Options
from mainspring.app.consume.consumer import Registration
from mainspring.app.consume.consumers import ConsumerOptions, Consumers
from mainspring.app.message.envelope import Envelope
from mainspring.app.names import check_schedule, check_topic, is_reloaded
from mainspring.app.options import Setting, choice, closest, flag, nearest, refuse_unknown
from mainspring.app.schedule.occurrence import (
    OCCURRENCE,
    OPTIONS,
    OccurrenceOptions,
    OccurrenceReader,
    target,
)
from mainspring.app.schedule.timing import TimingOptions, check_has_occurrences, read_timing
from mainspring.model.errors import BadOption, BadPayload, Conflict
from mainspring.model.schedule import MISFIRE_AFTER, Layer, Mode
from mainspring.runtime.schedules.declarations import Declared
from mainspring.runtime.schedules.plan import Code, read_plan
from mainspring.timing.cron import CronError
from mainspring.vocabulary import toml_advice

Scope = Literal["database", "fleet"]
"""Whether a schedule runs in each database of a fleet, or once for all of them."""

_logger = logging.getLogger("mainspring.schedules")


class RecurringOptions(ConsumerOptions, TimingOptions, OccurrenceOptions, total=False):
    """Options of ``@app.recurring(rhythm, …)``; None is the same as omitting an option."""

    name: str | None
    """The schedule's name in the database [the group]."""
    mode: Mode | None
    """"direct": to this consumer only. "publish": to every group of ``topic`` ["direct"; "publish" with a topic]."""
    topic: str | None
    """The topic published to in mode "publish" [the name]."""
    payload: object
    """The handler's payload [None]."""
    scope: Scope | None
    """In a fleet: "database": it runs in each; "fleet": once for all, in the one that is its home ["database"]."""
    offline: bool | None
    """Whether it fires by this host's clock, on every node, while the database is down [False]."""


@dataclass(frozen=True, slots=True)
class Recurring:
    """A schedule as code declares it, names as the user wrote them."""

    name: str
    group: str
    mode: Mode
    topic: str
    function: Callable[..., Any]
    declared: Declared
    scope: Scope


class Recurrences:
    """The schedules of an app's code, by name."""

    def __init__(self, envelope: Envelope, consumers: Consumers, options: Options) -> None:
        self._envelope = envelope
        self._occurrences = OccurrenceReader(envelope, consumers)
        self._settings = options.schedules
        self.defaults: Layer = _defaults(options)
        """The app's own defaults: stored in a definition, below its own fields, so that every process sees them."""
        self._known: dict[str, Recurring] = {}

    def __iter__(self) -> Iterator[Recurring]:
        """Iterate by registration."""
        return iter(self._known.values())

    def __len__(self) -> int:
        """Return the count."""
        return len(self._known)

    def check(self, rhythm: object, options: Mapping[str, Any]) -> None:
        """Raise every error that can be found before the function is known."""
        if callable(rhythm) and not hasattr(rhythm, "next"):
            raise BadOption(
                "@app.recurring has no parentheses: write @app.recurring('0 9 * * mon-fri'), or with every('90s')"
            )
        refuse_unknown(options, RecurringOptions.__annotations__, "@app.recurring(…)")
        if rhythm is None:
            raise BadOption("@app.recurring(rhythm, …) needs a rhythm: '0 9 * * mon-fri' or every('90s')")
        read_timing(rhythm, options)
        _scope(options)

    def topics(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the topics to subscribe to: its own, in mode "publish"."""
        mode = _mode(options)
        topic = options.get("name") if options.get("topic") is None else options["topic"]
        if mode == "direct":
            if options.get("topic") is not None:
                raise BadOption("topic= is for mode='publish': direct occurrences go only to this consumer")
            return ()
        if topic is None:
            raise BadOption(
                "mode='publish' needs topic=…, the topic that every occurrence is published to, or a name=… that is it"
            )
        return (check_topic(topic),)

    def add(
        self, rhythm: object, options: Mapping[str, Any], registration: Registration, *, shares: bool = False
    ) -> Recurring:
        """Register the schedule of this consumer. Raises BadOption or Conflict.

        It ``shares`` a consumer that another decorator has registered: retry and timeout are its own, then.
        """
        name = check_schedule(registration.group if options.get("name") is None else options["name"])
        fields, code = read_timing(rhythm, options)
        mode = _mode(options)
        topic = self.topics(options)[0] if mode == "publish" else name
        only = registration.group if mode == "direct" else None
        remedy = f"give @app.recurring of {registration.name} another payload=…"
        if options.get("payload") is None and registration.shape.payload is not None:
            remedy = f"give payload={{…}}, or drop the parameter {registration.shape.payload!r} of {registration.name}"
        encoded = self._envelope.fitting(options.get("payload"), topic, only, remedy)
        aim = target(mode, topic, registration.group, *encoded)
        own = {name: options.get(name) for name in (*OCCURRENCE, "only_if") if shares or name not in SHARED}
        definition = {**self.defaults, **fields, **aim, **self._occurrences.read(own, aim)}
        plan = read_plan(definition, code)
        check_has_occurrences(plan, f"@app.recurring {name}", datetime.now(UTC), may_be_over=True)
        offline = flag(options.get("offline") or False, "offline")
        if offline and (mode == "publish" or registration.cpu or registration.transactional is not None):
            raise BadOption(
                f"{registration.name}: offline=True runs this function itself while there is no database, so "
                "remove mode='publish', cpu=True and transactional="
            )
        if offline:
            _check_offline(definition, f"{registration.name}: ")
        declared = Declared(definition, {}, code, offline)
        made = Recurring(name, registration.group, mode, topic, registration.function, declared, _scope(options))
        other = self._known.get(name)
        if other is not None and not _is_again(other, made):
            raise Conflict(f"the schedule {name!r} already exists, of {other.group}: give this one another name=…")
        self._known[name] = made
        return made

    def code(self, name: str) -> Code | None:
        """Return the functions for this schedule's days."""
        known = self._known.get(name)
        return None if known is None else known.declared.code

    def declared(self) -> dict[str, Declared]:
        """Return every schedule with its overrides; log ignored ones."""
        found, ignored = self.configured()
        for each in ignored:
            _logger.log(each.level, "%s", each)
        return found

    def configured(self) -> tuple[dict[str, Declared], list[Ignored]]:
        """Return every schedule by name, with its overrides; and the overrides that are ignored."""
        found = {name: each.declared for name, each in self._known.items()}
        ignored: list[Ignored] = []
        for name, each in found.items():
            if (setting := self.setting(name)) is not None:
                overrides, wrong = self._overrides(name, setting, each)
                found[name] = replace(each, overrides=overrides)
                ignored += wrong
        known = {spelled for name in found for spelled in (name, _variable(name))}
        unknown = [(key, setting.source) for key, setting in self._settings.items() if key not in known]
        return found, [*ignored, *(_unknown(key, source, found) for key, source in unknown)]

    def setting(self, name: str) -> Setting | None:
        """Return its setting: an environment variable holds the rhythm, and takes precedence over the file."""
        variable, written = self._settings.get(_variable(name)), self._settings.get(name)
        if variable is None or written is None or variable is written:
            return variable or written
        if not isinstance(written.value, Mapping):
            return variable
        within = {**written.within, "rhythm": variable.source}
        return Setting({**written.value, "rhythm": variable.value}, f"{variable.source}, {written.source}", within)

    def _overrides(self, name: str, setting: Setting, declared: Declared) -> tuple[dict[str, Any], list[Ignored]]:
        """Return the overrides of a schedule, and the options that are ignored: a wrong one takes no other with it."""
        value, ignored = setting.value, []
        if not isinstance(value, str | Mapping):
            return {}, [Ignored(setting.source, name, f"{value!r} is neither a rhythm nor a table of options")]
        options = {"rhythm": value} if isinstance(value, str) else value
        # The rhythm first: it decides which of the others make sense.
        kept: dict[str, Any] = {}
        fields: dict[str, Any] = {}
        for option in sorted(options, key=lambda each: each != "rhythm"):
            try:
                fields = self._read({**kept, option: options[option]}, declared)
            except (BadOption, BadPayload, CronError, ImportError) as error:
                source, reason = setting.within.get(option, setting.source), _on_one_line(error)
                if option != "rhythm" and f"{option}=" not in reason and f"{option!r}" not in reason:
                    reason = f"{option}={options[option]!r}: {reason}"
                ignored.append(Ignored(source, name, reason, option not in OVERRIDABLE))
            else:
                kept[option] = options[option]
        return fields, ignored

    def _read(self, options: dict[str, Any], declared: Declared) -> dict[str, Any]:
        if "scope" in options:
            raise BadOption("scope= is no matter of configuration: write it in @app.recurring(…, scope='fleet')")
        refuse_unknown(options, OVERRIDABLE, "a schedule in the configuration", toml_advice)
        for name in ("start", "end"):
            _check_instant(options.get(name), name)
        fields, _ = read_timing(options.pop("rhythm", None), options, declared.definition, declared.code)
        fields |= self._occurrences.read(options, declared.definition)
        plan = read_plan({**declared.definition, **fields}, declared.code)
        check_has_occurrences(plan, "it", datetime.now(UTC), may_be_over=True)
        if declared.offline:
            _check_offline(fields)
        return fields


def _defaults(options: Options) -> dict[str, Any]:
    # The built-in default is not stored.
    after = options.misfire_after
    return {} if after == MISFIRE_AFTER else {"misfire_after": after.total_seconds()}


def _check_offline(fields: Mapping[str, Any], which: str = "") -> None:
    """Raise BadOption for what needs the database: it runs without."""
    if without := [name for name in ("failed", "only_if", "then") if fields.get(name) is not None]:
        raise BadOption(f"{which}offline=True runs it without a database, so remove {without[0]}=")


def _is_again(before: Recurring, now: Recurring) -> bool:
    """Return whether both are the same schedule: registered twice, or its module was reloaded."""
    if before.function is now.function:
        return (before.declared.definition, before.scope) == (now.declared.definition, now.scope)
    return before.group == now.group and is_reloaded(before.function, now.function)


def _mode(options: Mapping[str, Any]) -> Mode:
    mode = options.get("mode") or ("publish" if options.get("topic") is not None else "direct")
    return cast("Mode", choice(mode, get_args(Mode), "mode"))


def _scope(options: Mapping[str, Any]) -> Scope:
    return cast("Scope", choice(options.get("scope") or "database", get_args(Scope), "scope"))


SHARED = ("retry", "timeout")
"""Options that a consumer has, too: above a function of its own they are the consumer's."""
OVERRIDABLE = ("rhythm", *sorted(OPTIONS))
_UNFIT = re.compile(r"[^A-Z0-9]+")


@dataclass(frozen=True, slots=True)
class Ignored:
    """A setting that is ignored: the code's own value is used."""

    source: str
    schedule: str | None
    """None if the app has no schedule of that name."""
    reason: str
    is_unknown: bool = False
    """Whether there is no such option."""
    is_variable: bool = False
    """Whether it is an environment variable, not a line of a file."""

    @property
    def level(self) -> int:
        """The log level: a setting for an unknown schedule may belong to another app."""
        return logging.WARNING if self.schedule is None else logging.ERROR

    def __str__(self) -> str:
        """Return one line: source, reason and consequence."""
        if self.schedule is None:
            return f"{self.source}: {self.reason} It is ignored"
        stop = "" if self.reason.endswith("?") else "."
        effect = "It is ignored" if self.is_unknown else "The code's own value is used"
        return f"{self.source}: schedule {self.schedule}: {self.reason}{stop} {effect}"


def _check_instant(value: object, name: str) -> None:
    if value is None or (isinstance(value, datetime) and value.tzinfo is not None):
        return
    shown = repr(value) if isinstance(value, str) else str(value)
    raise BadOption(f"{name}={shown} is no instant: write it as in {name} = 2030-01-31T09:00:00+01:00, without quotes")


def _on_one_line(error: Exception) -> str:
    """Return the error on one line: a caret below it is for terminals."""
    if not isinstance(error, CronError):
        return str(error).replace("write a timedelta or text", "write text")  # a file has no timedelta
    where = f"{error.field}: " if error.field else ""
    return f"bad cron expression {error.expression!r}: {where}{error.problem}"


def _unknown(key: str, source: str, known: Iterable[str]) -> Ignored:
    """Return a setting for an unknown schedule, with the closest name as it is spelled at that source."""
    before = source.removesuffix(key)
    if before == source:
        return Ignored(source, None, f"this app has no schedule {key!r}.{closest(key, known)}")
    near = nearest(key, map(_variable, known))
    hint = f" Did you mean {before}{near}?" if near else ""
    return Ignored(source, None, f"this app has no schedule of this name.{hint}", is_variable=True)


def _variable(name: str) -> str:
    """Return the name as in an environment variable: ``MAINSPRING_SCHEDULE_DAILY_REPORT``."""
    return _UNFIT.sub("_", name.upper())
