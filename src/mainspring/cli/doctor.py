"""``mainspring health`` and ``doctor``: a status with its reasons, and effective options with problems and fixes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

from cyclopts import Parameter

from mainspring.app.config import Options
from mainspring.app.environment import Environment, read_environment
from mainspring.app.fleet.doctor import of_fleet
from mainspring.app.fleet.fleet import Fleet
from mainspring.app.fleet.report import of_member
from mainspring.app.mainspring import Mainspring
from mainspring.app.observe.doctor import (
    Value,
    mended,
    of_app,
    of_environment,
    of_installation,
    of_schedules,
    of_schedules_unseen,
    values,
)
from mainspring.app.options import Setting
from mainspring.cli.capture import DATABASE
from mainspring.cli.errors import Refused
from mainspring.cli.output import STATE_STYLES, Column, Columns, many, print_json, print_line, print_table, stdout
from mainspring.cli.target import UNNAMED, Json, Spec, Target
from mainspring.model.errors import BadOption, MainspringError
from mainspring.model.health import Health
from mainspring.model.redaction import redacted
from mainspring.model.symptom import Grade, Symptom

_CHECKS: Columns[Any] = (Column("check"), Column("status"), Column("finding", elastic=True, wraps=True))
_DATABASES: Columns[Any] = (Column("database"), Column("status"), Column("finding", elastic=True, wraps=True))
_OPTIONS: Columns[Any] = (Column("option"), Column("value", elastic=True), Column("set by", elastic=True))
_CODES = {"healthy": 0, "degraded": 1, "unhealthy": 2}
_GRADES: tuple[Grade, ...] = ("error", "warning", "note")


async def health(app: Spec | None = None, /, *, target: Target = UNNAMED, json: Json = False) -> int:
    """Report the health of the system; the exit code is 0 healthy, 1 degraded, 2 unhealthy. Read-only."""
    target = target.of(app)
    if (fleet := target.fleet()) is not None:
        return await _of_fleet(fleet, target, json=json)
    found = _advised(await target.find().health(), target)
    if DATABASE.get() is not None:
        found = of_member(found)
    if json:
        print_json(found)
        return _CODES[found.status]
    print_line(found.status, style=STATE_STYLES[found.status])
    print_table(_CHECKS, [(check.name, check.status, check.summary) for check in found.checks])
    return _CODES[found.status]


def _advised(found: Health, target: Target) -> Health:
    return replace(found, checks=tuple(replace(each, summary=target.advised(each.summary)) for each in found.checks))


async def _of_fleet(fleet: Fleet, target: Target, *, json: bool) -> int:
    found = await fleet.health(databases=await target.names(fleet) if target.database else None)
    databases = {name: _advised(each, target.on(name)) for name, each in found.databases.items()}
    if json:
        print_json(replace(found, databases=databases))
        return _CODES[found.status]
    well = sum(each.status == "healthy" for each in databases.values())
    counted = f"{found.status}, {well:,} of {many(len(databases), 'database')} healthy"
    print_line(counted, style=STATE_STYLES[found.status])
    findings = {
        name: "; ".join(check.summary for check in each.checks if check.status != "healthy")
        for name, each in databases.items()
    }
    if databases:
        print_table(_DATABASES, [(name, each.status, findings[name]) for name, each in databases.items()])
    if found.checks:
        if not stdout().is_terminal:
            print()
        print_table(_CHECKS, [(check.name, check.status, check.summary) for check in found.checks])
    return _CODES[found.status]


async def doctor(
    app: Spec | None = None,
    /,
    *,
    target: Target = UNNAMED,
    json: Json = False,
    mend_clock: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> int:
    """Check configuration and database, and report what to change. Read-only without --mend-clock.

    The exit code is 1 if there is an error, that is, something that stops work.

    Without an application, only the environment, the file and the database are checked.

    Parameters
    ----------
    mend_clock
        Set a SQLite file's clock, and times derived from it, back to this host's. Requires exclusive access.
    """
    target = target.of(app)
    spec = target.spec
    # Log lines are suppressed: the findings below report the same problems.
    logging.getLogger("mainspring").addHandler(logging.NullHandler())
    around = read_environment()
    findings = [of_installation(), *of_environment(around)]
    found: Mainspring | None = None
    try:
        if around.problems:
            findings.append(_absent(spec, around))
        elif unreadable := _unreadable(target, around):
            findings.append(unreadable)
        elif (found := _find(target, around)) is None:
            findings.append(_absent(spec, around))
    except MainspringError as error:
        why = "" if spec is None else "the options of an application are shown once it can be imported"
        findings.append(Symptom("application", "error", str(error), why))
    if found is not None:
        findings += await _examined(found, spec, target, mend_clock=mend_clock)
    if found is not None and spec is not None:
        findings += of_schedules(found, spec)
    elif spec is None and not around.problems:
        findings += of_schedules_unseen(Options.read({}, *around.layers()))
    shown = [] if found is None and spec is not None else _values(found, around)
    ill = any(finding.grade == "error" for finding in findings)
    if json:
        print_json({"ok": not ill, "options": shown, "findings": findings})
    else:
        _print(shown, findings)
    return int(ill)


async def _examined(app: Mainspring, spec: str | None, target: Target, *, mend_clock: bool) -> list[Symptom]:
    fleet = target.fleet() if spec is not None else None
    if fleet is None or spec is None:
        return [*([mended(app)] if mend_clock else []), *await of_app(app, spec, target.typed)]
    if mend_clock:
        raise Refused("--mend-clock sets the clock of one file: add --database NAME")
    chosen = await target.names(fleet) if target.database else None
    return await of_fleet(fleet, spec, chosen, lambda name: target.typed if name is None else target.on(name).typed)


def _find(target: Target, around: Environment) -> Mainspring | None:
    if target.spec is not None:
        if target.url or target.namespace or target.schema:
            raise Refused("an application has its own database: omit --url, --namespace and --schema")
        return target.find() if target.fleet() is None else target.code()
    if target.url is None and around.url() is None:
        return None
    return Mainspring(target.url, namespace=target.namespace, schema=target.schema)


def _unreadable(target: Target, around: Environment) -> Symptom | None:
    """Check a URL that is given here; the URL of an application is checked when that is imported."""
    setting = Setting(target.url, "--url") if target.url is not None else around.url()
    if target.spec is not None or setting is None:
        return None
    try:
        Mainspring(str(setting.value))  # connects to nothing
    except BadOption as error:
        return Symptom("database", "error", str(error), f"it is set by {setting.source}: correct it there")
    return None


def _values(app: Mainspring | None, around: Environment) -> list[Value]:
    if around.problems:
        return []  # an app with invalid values cannot be built
    return values(app.options if app is not None else Options.read({}, *around.layers()), app)


def _absent(spec: str | None, around: Environment) -> Symptom:
    if around.problems:
        what = redacted(spec or "the database")
        return Symptom("application", "note", f"{what} is checked once the configuration is valid")
    advice = "mainspring doctor MODULE:APP, or set MAINSPRING_APP or MAINSPRING_URL, or app or url in mainspring.toml"
    return Symptom("database", "note", "no database is given: only the configuration was checked", advice)


def _print(options: Sequence[Value], findings: Sequence[Symptom]) -> None:
    if options:
        print_table(_OPTIONS, [(each.option, each.value, each.source) for each in options])
        if not stdout().is_terminal:
            print()
    print_table(_CHECKS, list(_lines(findings)))
    counts = Counter(each.grade for each in findings)
    worst = max((each.grade for each in findings), key=("ok", *_GRADES[::-1]).index)
    summary = ", ".join(many(counts[grade], grade) for grade in _GRADES if counts[grade])
    print_line(summary or "no problems found", style=STATE_STYLES[worst])


def _lines(findings: Sequence[Symptom]) -> Iterator[tuple[str, str, str]]:
    for finding in findings:
        yield finding.about, finding.grade, finding.summary
        if finding.advice:
            yield "", "", f"→ {finding.advice}"
