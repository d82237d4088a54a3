"""Diagnosis of an installation: its configuration, database, consumers and schedules. Read-only."""

from __future__ import annotations

import asyncio
import os
import platform
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.app.config import KEPT, NAMES, Options, unnamed, write_age, write_topics
from mainspring.app.consume.consumer import Registration
from mainspring.app.environment import Environment
from mainspring.app.names import forwards_of
from mainspring.app.observe.broker_doctor import of_brokers
from mainspring.app.observe.providers import of_provider
from mainspring.app.observe.rights import of_rights
from mainspring.app.schedule.recurring import Ignored
from mainspring.app.storages import Address, caveat, mend_clock, open_storage
from mainspring.model.errors import MIGRATE, BadOption, MainspringError, NotGranted, SchemaMissing, SchemaTooNew
from mainspring.model.roles import Lacking, held
from mainspring.model.symptom import MEND, Grade, Symptom, Tolerances
from mainspring.model.views import Declaration, Roster, Tally
from mainspring.runtime.janitor import described_namesakes
from mainspring.storage.contract import Storage
from mainspring.timing.backoff import PRESETS, RetryPolicy
from mainspring.timing.clock import Clock, SystemClock
from mainspring.timing.duration import spell

if TYPE_CHECKING:
    from mainspring.app.mainspring import Mainspring

_PATIENCE = 9.0
_HEARD_WITHIN = 3.0
_MAGIC = b"SQLite format 3\x00"
_WAL = 2
"""Byte 18 of a SQLite file with a write-ahead log."""
_ONLY_ON = {"durable": "sqlite", "pool_size": "postgresql", "require_tls": "postgresql"}


@dataclass(frozen=True, slots=True)
class Value:
    """An option as people write it, and its source. Without secrets."""

    option: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Code:
    """What the code of an app has: groups with consumers, queues that name their topics, and schedules."""

    consumers: Sequence[Registration]
    queues: Sequence[Declaration]
    schedules: Collection[str]

    @property
    def groups(self) -> list[str]:
        """The groups that ``declare`` stores."""
        return [*(each.group for each in self.consumers), *(each.group for each in self.queues)]


def code_of(app: Mainspring) -> Code:
    """Return what is registered with the app; the database is not read."""
    # Same package: an app shows its users what is declared, and not how it was registered.
    place = app._own.place  # noqa: SLF001
    consumers = place.code.consumers
    return Code(list(consumers), consumers.queues.declarations, place.scheduled())


def values(options: Options, app: Mainspring | None = None) -> list[Value]:
    """Return every option with its value and source, the database first if known."""
    found = [Value(name, _written(_value(options, name), name), options.sources[name]) for name in NAMES]
    if app is None:
        return found
    address = address_of(app)
    shown = f"sqlite:///{address.shown}" if address.engine == "sqlite" else address.shown
    return [Value("url", shown, options.sources["url"]), *found]


def of_environment(around: Environment) -> Iterator[Symptom]:
    """Check the environment and the file."""
    for problem in around.problems:
        yield Symptom("configuration", "error", problem)
    if not around.problems:
        read = [around.file] if around.file else []
        read += [setting.source for setting in around.environment.values()]
        summary = f"read from {', '.join(read)}" if read else "no file and no variables, only arguments and defaults"
        yield Symptom("configuration", "ok", summary)
    for other in around.unread:
        summary = f"{other} has options too, and is not read: {around.file} comes first"
        yield Symptom("configuration", "warning", summary, f"move them into {around.file}")
    for variable in around.empty:
        summary = f"{variable} is empty, which counts as not set"
        yield Symptom("configuration", "note", summary, f"give it a value, or: unset {variable}")


def of_installation() -> Symptom:
    """Return the release and its installed extras."""
    try:
        extras = metadata("mainspring").get_all("Provides-Extra") or []
        needs = requires("mainspring") or []
    except PackageNotFoundError:
        return Symptom("installation", "note", "mainspring is not installed as a package", "pip install mainspring")
    extras = [extra for extra in extras if "mainspring" not in needs_of(extra, needs)]  # `all` is the sum of the others
    there = [extra for extra in extras if all(map(_is_installed, needs_of(extra, needs)))]
    absent = [extra for extra in extras if extra not in there]
    parts = [f"mainspring {version('mainspring')} on Python {platform.python_version()}"]
    parts += [f"with {', '.join(there)}"] if there else []
    parts += [f"without {', '.join(absent)}"] if absent else []
    return Symptom("installation", "ok", ", ".join(parts))


def needs_of(extra: str, requirements: Sequence[str]) -> list[str]:
    """Return an extra's packages."""
    marked = re.compile(rf"""^([\w.-]+).*\bextra == ["']{re.escape(extra)}["']""")
    return [found[1] for found in map(marked.match, requirements) if found]


def mended(app: Mainspring) -> Symptom:
    """Set back the clock of the app's file, if it is ahead."""
    try:
        ahead = mend_clock(address_of(app), app.options)
    except MainspringError as error:
        return Symptom("mending", "error", str(error))
    done = f"was set back by {ahead.total_seconds():,.0f} s" if ahead else "is not ahead of this host's: unchanged"
    return Symptom("mending", "ok", f"the clock of the file {done}")


async def of_app(app: Mainspring, spec: str | None, flags: str, clock: Clock | None = None) -> list[Symptom]:
    """Check the database, and the consumers in the code against it.

    ``spec`` is MODULE:APP if the app was imported, ``flags`` are the command-line flags for its database, ``clock`` is
    compared with the database's [this host's].
    """
    address, code = address_of(app), code_of(app)
    findings = list(_of_idle_options(app.options, address))
    if address.engine == "postgresql":
        findings += of_provider(address.target)
    if spec is not None:
        findings += _of_registry(code, spec)
    state = await _state(app, flags, findings, clock or SystemClock(), consumes=bool(code.consumers))
    if spec is not None and state is not None:
        findings += _of_groups(app, code, *state, spec, flags)
        findings += _of_name(app.options, code, state[0])
    if spec is not None:
        findings += await of_brokers(app, spec, state)
    return findings


async def _state(
    app: Mainspring, flags: str, findings: list[Symptom], clock: Clock, *, consumes: bool
) -> tuple[Roster, Tally] | None:
    """Check the database; return what is in it, if that can be read."""
    address = address_of(app)
    if address.engine == "memory":
        findings.append(Symptom("database", "note", "memory:// is lost with the process: for tests only"))
        return None
    if (known := caveat(address)) is not None:
        findings.append(Symptom("sqlite", "note", known))
    if address.engine == "sqlite" and (problem := _of_file(address)) is not None:
        findings.append(problem)
        return None
    storage, _ = open_storage(address, app.options)  # not by the app's own connection, which would migrate
    return await _of_database(storage, app, flags, findings, clock, consumes=consumes)


def _of_name(options: Options, code: Code, roster: Roster) -> Iterator[Symptom]:
    """Report a name that two applications share: each would stop the schedules of the other."""
    if code.groups and (lacking := unnamed(options)) is not None:
        yield Symptom("name", "warning", *lacking)
    others = roster.namesakes(options.name, options.version, set(code.groups))
    if others:
        yield Symptom("name", "warning", *described_namesakes(options.name, others))


def _of_idle_options(options: Options, address: Address) -> Iterator[Symptom]:
    for option, engine in _ONLY_ON.items():
        source = options.sources[option]
        if engine != address.engine and source != "default":
            yield Symptom(option, "note", f"set by {source}, and without effect: the database is {address.engine}")


def _of_registry(code: Code, spec: str) -> Iterator[Symptom]:
    if not code.groups:
        summary = f"{spec} has none: it can publish, but not consume"
        yield Symptom("consumers", "note", summary, "write @app.consumer(…), or app.include() the module that does")
    for about, found in (("consumers", code.consumers), ("queues", code.queues)):
        if found:
            yield Symptom(about, "ok", f"{len(found)} in {spec}: {', '.join(each.group for each in found)}")


def _of_file(address: Address) -> Symptom | None:
    """Return what is wrong with a SQLite file before opening it, which creates it and sets its mode."""
    path = Path(address.target)
    folder = path.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        wrong = "may not be written to" if folder.is_dir() else "does not exist"
        advice = f"SQLite makes files beside {path.name}: create the directory, or let this user write to it"
        return Symptom("database", "error", f"the directory {folder.absolute()} {wrong}", advice)
    if not path.exists():
        return Symptom("database", "note", f"there is no file {path} yet: opening the app creates it")
    if not path.is_file() or not os.access(path, os.R_OK | os.W_OK):
        wrong = "may not be read and written by this user" if path.is_file() else "is not a file"
        return Symptom("database", "error", f"{path} {wrong}", "is it the right path?")
    return _of_header(path)


def _of_header(path: Path) -> Symptom | None:
    with path.open("rb") as file:
        header = file.read(20)
    if header and not header.startswith(_MAGIC):
        return Symptom("database", "error", f"{path} is no SQLite database", "is it the right path?")
    if not header or header[18] != _WAL:
        return Symptom("database", "note", f"{path} has no tables yet: opening the app creates them")
    return None


async def _of_database(
    storage: Storage, app: Mainspring, flags: str, findings: list[Symptom], clock: Clock, *, consumes: bool
) -> tuple[Roster, Tally] | None:
    """Return the declared groups, the workers and how much waits, if that can be read."""
    options, address, about = app.options, address_of(app), "database"
    rights: Lacking = {}
    try:
        async with asyncio.timeout(_PATIENCE):
            await storage.open()
            await storage.ping()  # the first one connects
            latency = await storage.ping() / timedelta(milliseconds=1)
            findings.append(Symptom("database", "ok", f"{address.shown} answered in {latency:.1f} ms"))
            if address.engine == "postgresql":
                findings.append(await _of_bell(storage))
            about = "schema"
            rights = await storage.schema.lacking()
            findings += of_rights(rights, consumes=consumes)
            await storage.schema.check()
            number, missing = await storage.schema.version(), await storage.schema.missing()
            findings += [
                Symptom("schema", "error", each.problem, each.remedy.replace(MIGRATE, f"mainspring migrate{flags}"))
                for each in missing
            ]
            if any(not each.statements for each in missing):
                return None  # what is in the tables cannot be examined without all of them
            if not missing:
                findings.append(Symptom("schema", "ok", f"version {number}, which this release can work with"))
            found = await storage.schema.examine(Tolerances(), clock.now)
            findings += [replace(each, advice=each.advice.replace(MEND, f"{MEND}{flags}")) for each in found]
            return await storage.ledger.roster(), await storage.ledger.tally(1)
    except TimeoutError:
        findings.append(Symptom(about, "error", f"{address.shown} did not answer within {_PATIENCE:.0f} s"))
    except SchemaMissing as error:
        findings.append(_of_schema(error, creates=options.auto_migrate or storage.migrates_itself, flags=flags))
    except SchemaTooNew as error:
        findings.append(Symptom("schema", "error", str(error), "pip install --upgrade mainspring"))
    except BadOption as error:
        advice = f"it is set by {options.sources['url']}: correct it there"
        findings.append(Symptom(about, "error", str(error), advice))
    except NotGranted as error:
        may = ", ".join(held(rights))
        advice = "run doctor as a role that may read for the rest"
        findings.append(
            Symptom("rights", "note", f"a role that may {may} reads no more", advice)
            if may
            else Symptom(about, "error", str(error))
        )
    except MainspringError as error:
        advice = "is it running, and is that its address? May this host and this user connect?"
        findings.append(Symptom(about, "error", str(error), advice if about == "database" else ""))
    finally:
        await storage.close()
    return None


def _of_schema(error: SchemaMissing, *, creates: bool, flags: str) -> Symptom:
    state = "there are no tables yet" if error.found == 0 else f"version {error.found}, and {error.needed} is needed"
    if creates:
        return Symptom("schema", "note", f"{state}: opening the app does that")
    return Symptom("schema", "error", state, f"mainspring migrate{flags}")


async def _of_bell(storage: Storage) -> Symptom:
    heard = asyncio.Event()
    storage.doorbell.listen(lambda _group: heard.set())
    try:
        async with asyncio.timeout(_HEARD_WITHIN):
            await heard.wait()
    except TimeoutError:
        summary = "no NOTIFY arrives, as behind a pooler: workers poll for work every half second"
        return Symptom("bell", "warning", summary, "for low latency, let workers connect to the server itself")
    return Symptom("bell", "ok", "NOTIFY works: it wakes workers for new work at once")


def _of_groups(app: Mainspring, code: Code, roster: Roster, tally: Tally, spec: str, flags: str) -> Iterator[Symptom]:
    options = app.options
    declared = {each.name: each for each in roster.groups}
    unknown = [each for each in code.groups if each not in declared]
    if unknown:
        summary = f"not declared yet, so nothing that is published reaches them: {', '.join(unknown)}"
        starts = "a worker does it when it starts" if code.consumers else "a queue does it at its first use"
        yield Symptom("groups", "warning", summary, f"mainspring declare {spec} ({starts})")
    for group in code.groups:
        owner = declared[group].app if group in declared else options.name
        if owner != options.name:
            summary = f"group {group!r} belongs to app {owner!r} in this database, and this app is {options.name!r}"
            yield Symptom(
                "groups",
                "error",
                summary,
                f"if it is the same application: Mainspring(…, name={owner!r}); if not, another group=…",
            )
    # A queue without topics uses a group that other code declares; and so does every live process with its own.
    used = {*code.groups, *(group for each in roster.alive() for group in each.groups)}
    used.add(forwards_of(options.name))  # it is in no code: every worker of a fleet serves it
    queues = app._code.consumers.queues  # noqa: SLF001 - same package
    left = [each for each in declared if each not in used and each not in queues and declared[each].app == options.name]
    if left:
        waiting = {each.group for each in tally.groups if each.ready or each.scheduled or each.running or each.lapsed}
        still = [each for each in left if each in waiting]
        wait = f"; messages still wait in {', '.join(still)}" if still else ""
        summary = f"declared, but no longer in the code: {', '.join(left)}{wait}"
        yield Symptom("groups", "note", summary, f"mainspring groups retire {left[0]}{flags}")
    if not unknown and not left and code.groups:
        yield Symptom("groups", "ok", "every consumer is declared" if not code.queues else "every group is declared")


def address_of(app: Mainspring) -> Address:
    """Return where the database of an app is."""
    return app._own.place.address  # noqa: SLF001 - same package: no other module needs it, since it may hold a password


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _value(options: Options, name: str) -> object:
    outer, _, inner = name.partition(".")
    value: object = getattr(options, outer)
    return getattr(value, inner) if inner else value


def _written(value: object, name: str) -> str:
    match value:
        case None:
            return write_age(None) if name.startswith(KEPT) else "auto" if name == "tracing" else "none"
        case bool():
            return str(value).lower()
        case int():
            return f"{value:_}"
        case timedelta():
            return spell(value)
        case Mapping():
            return write_topics(value) or "none"
        case _:
            shown = value.name if isinstance(value, RetryPolicy) else str(value)
            return next((preset for preset, each in PRESETS.items() if each is value), shown)


def of_schedules(app: Mainspring, spec: str) -> Iterator[Symptom]:
    """Check the schedules in the code, and their settings in the variables and the file."""
    recurrences = app._code.registry.recurrences  # noqa: SLF001 - same package: only doctor needs the ignored settings
    declared, ignored = recurrences.configured()
    if declared:
        yield Symptom("schedules", "ok", f"{len(declared)} in {spec}: {', '.join(declared)}")
    settings = {name: recurrences.setting(name) for name, each in declared.items() if each.overrides}
    followed = [f"{name} ({setting.source})" for name, setting in settings.items() if setting is not None]
    if followed:
        yield Symptom("schedules", "ok", f"set by configuration: {', '.join(followed)}")
    for each in ignored:
        grade, advice = _remedy(each, app.options.name, declared)
        yield Symptom("schedules", grade, str(each), advice)


def of_schedules_unseen(options: Options) -> Iterator[Symptom]:
    """Report the settings of schedules if no application is given."""
    if options.schedules:
        summary = f"set by configuration, and checked only with an application: {', '.join(options.schedules)}"
        yield Symptom("schedules", "note", summary, "mainspring doctor MODULE:APP")


def _remedy(ignored: Ignored, app: str, names: Collection[str]) -> tuple[Grade, str]:
    if ignored.schedule is not None:
        return "error", "correct it there; `mainspring cron RHYTHM` explains a rhythm"
    there = f"the schedules of {app} are {', '.join(names)}" if names else f"{app} has no schedules"
    if ignored.is_variable:
        return "warning", f"unset or rename it: {there}"
    return "warning", f"remove or rename it: {there}. Settings of another app belong in [apps.NAME.schedules]"
