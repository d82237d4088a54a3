"""What configuration says of schedules, laid over what code declares; and what of it is not followed."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from mainspring.app.options import Setting, closest, nearest, refuse_unknown
from mainspring.app.timings import TIMING, check_has_occurrences, read_timing
from mainspring.model.errors import BadOption
from mainspring.runtime.schedules.plan import read_plan
from mainspring.runtime.schedules.reconciliation import Declared
from mainspring.timing.cron import CronError

OVERRIDABLE = ("rhythm", *sorted(TIMING))
_UNFIT = re.compile(r"[^A-Z0-9]+")


@dataclass(frozen=True, slots=True)
class Ignored:
    """A setting that is not followed. It stops no job: the code's own value stands."""

    source: str
    schedule: str | None
    """Whose it is; None where the app has no schedule of that name."""
    reason: str
    is_variable: bool = False
    """Whether it is a variable of the environment, not a line of a file."""

    @property
    def level(self) -> int:
        """How it is logged: what names no schedule of this app may be meant for another one."""
        return logging.WARNING if self.schedule is None else logging.ERROR

    def __str__(self) -> str:
        """One line that says where, what and what follows."""
        if self.schedule is None:
            return f"{self.source}: {self.reason} It is ignored"
        stop = "" if self.reason.endswith("?") else "."
        return f"{self.source}: schedule {self.schedule}: {self.reason}{stop} The code's own value is used"


class Overrides:
    """The settings of schedules, by their name in a file, or as it stands in a variable of the environment."""

    def __init__(self, settings: Mapping[str, Setting]) -> None:
        self._settings = settings

    def laid_over(self, declared: Mapping[str, Declared]) -> tuple[dict[str, Declared], list[Ignored]]:
        """Every schedule of the code, with what is set for it; and what cannot be followed."""
        ignored: list[Ignored] = []
        found: dict[str, Declared] = {}
        for name, each in declared.items():
            setting = self.setting(name)
            found[name] = each
            if setting is None:
                continue
            try:
                found[name] = replace(each, overrides=_read(setting.value, each))
            except (BadOption, CronError, ImportError) as error:
                ignored.append(Ignored(setting.source, name, _said(error)))
        names = {spelled for name in declared for spelled in (name, _variable(name))}
        strange = [(key, setting) for key, setting in self._settings.items() if key not in names]
        return found, [*ignored, *(_strange(key, setting.source, declared) for key, setting in strange)]

    def setting(self, name: str) -> Setting | None:
        """What is set for it: a variable of the environment holds the rhythm, and goes before that of the file."""
        variable, written = self._settings.get(_variable(name)), self._settings.get(name)
        if variable is None or written is None or variable is written:
            return variable or written
        if not isinstance(written.value, Mapping):
            return variable
        return Setting({**written.value, "rhythm": variable.value}, f"{variable.source}, {written.source}")


def _read(value: object, declared: Declared) -> dict[str, Any]:
    if not isinstance(value, str | Mapping):
        raise BadOption(f"{value!r} is neither a rhythm nor a table of options")
    options = {"rhythm": value} if isinstance(value, str) else dict(value)
    refuse_unknown(options, OVERRIDABLE, "a schedule in the configuration")
    for name in ("start", "end"):
        _check_instant(options.get(name), name)
    fields, _ = read_timing(options.pop("rhythm", None), options, declared.definition, declared.code)
    plan = read_plan({**declared.definition, **fields}, declared.code)
    check_has_occurrences(plan, "it", datetime.now(UTC), may_be_over=True)
    return fields


def _check_instant(value: object, name: str) -> None:
    if value is None or (isinstance(value, datetime) and value.tzinfo is not None):
        return
    shown = repr(value) if isinstance(value, str) else str(value)
    raise BadOption(f"{name}={shown} is no instant: write it as in {name} = 2030-01-31T09:00:00+01:00, without quotes")


def _said(error: Exception) -> str:
    """What is wrong, on one line: a caret below an expression is for terminals."""
    if not isinstance(error, CronError):
        return str(error)
    where = f"{error.field}: " if error.field else ""
    return f"bad cron expression {error.expression!r}: {where}{error.problem}"


def _strange(key: str, source: str, known: Iterable[str]) -> Ignored:
    """A setting for no schedule of this app, with the name that may be meant, as it is written at that place."""
    before = source.removesuffix(key)
    if before == source:
        return Ignored(source, None, f"this app has no schedule {key!r}.{closest(key, known)}")
    near = nearest(key, map(_variable, known))
    hint = f" Did you mean {before}{near}?" if near else ""
    return Ignored(source, None, f"this app has no schedule of this name.{hint}", is_variable=True)


def _variable(name: str) -> str:
    """The name as it stands in a variable of the environment: ``MAINSPRING_SCHEDULE_DAILY_REPORT``."""
    return _UNFIT.sub("_", name.upper())
