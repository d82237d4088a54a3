"""Options from environment variables and from the TOML file, and how they combine with the app's arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import cast

from mainspring.app.config import FROM_TEXT, NAMES, READERS, SCHEDULES, Options, Topics, pieces
from mainspring.app.options import Setting, closest, nearest
from mainspring.app.storages import Address, read_url
from mainspring.app.toml import OWN, Keys, TomlFile, find_files, read_file
from mainspring.model.errors import BadOption
from mainspring.model.redaction import redacted
from mainspring.model.retention import Kind

PREFIX = "MAINSPRING_"
URL = PREFIX + "URL"
APP = PREFIX + "APP"
CONFIG = PREFIX + "CONFIG"
SCHEDULE = PREFIX + "SCHEDULE_"
"""Prefix of a schedule's name, in capitals: the variable holds its rhythm."""
DASHBOARD: tuple[str, ...] = tuple(
    f"{PREFIX}DASHBOARD_{what}"
    for what in ("OPERATOR_TOKEN", "OPERATOR_TOKEN_FILE", "VIEWER_TOKEN", "VIEWER_TOKEN_FILE", "SECRET")
)
"""Read by the dashboard only: they are secrets, not options of an app."""
_PLACES = ("app", "url")
"""Where an app or its database is: settings that are no options of the app itself."""
_VARIABLES = {PREFIX + name.upper().replace(".", "_"): name for name in (*_PLACES, *NAMES)}
_RESERVED = tuple(PREFIX + what for what in ("TEST_", "FAULT_", "BENCH_"))
"""For tests and benchmarks, ours and others': never options."""
# Kubernetes gives every process variables for every Service: one named mainspring must not stop the apps.
_SERVICE = re.compile(
    r"MAINSPRING(_\w+)?_(SERVICE_(HOST|PORT)(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)=.*"
    r"|MAINSPRING(_\w+)?_PORT=(tcp|udp|sctp)://.*"
)
_RELATIVE = re.compile(r"(sqlite(?:\+\w+)?):///([^/:][^:]*)")

Settings = Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class Environment:
    """Settings from the environment and the file, validated, and the problems in them."""

    environment: Settings = field(default_factory=dict)
    everywhere: Settings = field(default_factory=dict)
    """The top-level keys of the file, for every app."""
    apps: Mapping[str, Settings] = field(default_factory=dict)
    """The tables ``[apps.<name>]`` of the file, each for the app of that name."""
    problems: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    """Variables with an empty value, which is the same as unset."""
    file: str | None = None
    """The file that was read, as displayed."""
    folder: Path | None = None
    """Its directory."""
    unread: tuple[str, ...] = ()
    """Files of lower precedence, not read."""

    def layers(self, name: object = None) -> tuple[Settings, Settings, Settings]:
        """Return the settings for the app of this name [the one set here], lowest first."""
        own = name or _value(self.environment, "name") or _value(self.everywhere, "name") or "app"
        return self.everywhere, self.apps.get(str(own), {}), self.environment

    def url(self, name: object = None) -> Setting | None:
        """Return the app's database URL, if set."""
        return next((layer["url"] for layer in self.layers(name)[::-1] if "url" in layer), None)

    def app(self) -> Setting | None:
        """Return the application that commands are about, as MODULE:APP, if set."""
        return self.environment.get("app") or self.everywhere.get("app")

    def check(self) -> None:
        """Raise BadOption for the first problem, with how to see the rest."""
        if self.problems:
            more = len(self.problems) - 1
            rest = f" (and {more} more: `mainspring doctor` shows all)" if more else ""
            raise BadOption(self.problems[0] + rest)


def read_environment(environ: Mapping[str, str] | None = None, folder: Path | None = None) -> Environment:
    """Read the variables and the file in effect. Problems are in the result, not raised."""
    variables = {
        name: text for name, text in (os.environ if environ is None else environ).items() if name.startswith(PREFIX)
    }
    problems: list[str] = []
    environment = dict(_environment(variables, problems))
    everywhere: dict[str, Setting] = {}
    apps: dict[str, dict[str, Setting]] = {}
    try:
        here = folder or Path.cwd()
    except OSError:  # it was removed
        here = Path()
    file: TomlFile | None = None
    unread: list[Path] = []
    try:
        file, unread = _find(variables.get(CONFIG, "").strip(), here)
    except BadOption as error:
        problems.append(str(error))
    if file is not None:
        reading = _Reading(file, _shown(file.path, here), here, problems)
        everywhere, apps = reading.everywhere(), reading.apps()
    return Environment(
        environment=environment,
        everywhere=everywhere,
        apps=apps,
        problems=tuple(problems),
        empty=tuple(sorted(name for name, text in variables.items() if not text.strip())),
        file=None if file is None else _shown(file.path, here),
        folder=None if file is None else file.path.parent,
        unread=tuple(_shown(path, here) for path in unread),
    )


def _environment(variables: Mapping[str, str], problems: list[str]) -> Iterator[tuple[str, Setting]]:
    for variable, text in sorted(variables.items()):
        if not text.strip() or variable in (CONFIG, *DASHBOARD) or variable.startswith(_RESERVED):
            continue
        name = _VARIABLES.get(variable)
        if variable.startswith(SCHEDULE):
            yield SCHEDULES + variable.removeprefix(SCHEDULE), Setting(text.strip(), variable)
        elif name is not None:
            try:
                value = FROM_TEXT.get(name, str)(text)
                yield name, Setting(_read(name, value, "environment", variable), variable)
            except BadOption as error:
                problems.append(str(error))
        elif variable == PREFIX + "RETENTION":
            fields = ", ".join(each for each in _VARIABLES if each.startswith(variable))
            problems.append(f"environment: {variable} has a variable for each of its fields: {fields}")
        elif not _SERVICE.fullmatch(f"{variable}={text}"):
            problems.append(f"environment: {variable} is no option.{_suggested(variable)}")


def _suggested(variable: str) -> str:
    # Compared without their common prefix, or each would be near.
    near = nearest(
        variable.removeprefix(PREFIX), [each.removeprefix(PREFIX) for each in (CONFIG, *DASHBOARD, *_VARIABLES)]
    )
    return f" Did you mean {PREFIX}{near}?" if near else f" The options are {', '.join(_VARIABLES)}"


def _find(named: str, here: Path) -> tuple[TomlFile | None, list[Path]]:
    """Return the file in effect, and those of lower precedence."""
    if "://" in named:
        raise BadOption(f"{CONFIG} is the path of a file, as in /etc/shop/{OWN}, not a URL: that goes into {URL}")
    if named:
        path = here / Path(named).expanduser()
        try:
            return read_file(path, _shown(path, here)), []
        except BadOption as error:
            raise BadOption(f"{CONFIG}={named!r}: {error}") from None
    there = find_files(here)
    for place, path in enumerate(there):
        file = read_file(path, _shown(path, here))
        if file is not None:
            return file, [other for other in there[place + 1 :] if _is_ours(other)]
    return None, []


def _is_ours(path: Path) -> bool:
    try:
        return read_file(path, path.name) is not None
    except BadOption:
        return True


class _Reading:
    """One pass over a file, which notes problems with their positions."""

    def __init__(self, file: TomlFile, shown: str, here: Path, problems: list[str]) -> None:
        self._file = file
        self._shown = shown
        self._here = here
        self._problems = problems

    def everywhere(self) -> dict[str, Setting]:
        """Return keys for every app."""
        return dict(self._table({name: value for name, value in self._file.table.items() if name != "apps"}, ()))

    def apps(self) -> dict[str, dict[str, Setting]]:
        """Return the keys by app."""
        tables = self._file.table.get("apps", {})
        if not isinstance(tables, dict):
            self._note(("apps",), "apps holds a table for each app, as in [apps.shop]")
            return {}
        found: dict[str, dict[str, Setting]] = {}
        for app, table in tables.items():
            if isinstance(table, dict):
                found[app] = dict(self._table(table, ("apps", app)))
            else:
                self._note(("apps", app), f"apps holds a table for each app, as in [apps.{app}]")
        return found

    def _table(self, table: Mapping[str, object], above: Keys) -> Iterator[tuple[str, Setting]]:
        for key, value in table.items():
            keys = (*above, key)
            if key == "name" and above:
                self._note(keys, f"the table is for the app of that name already: leave out name, or rename {above[1]}")
            elif key == "app" and above:
                self._note(keys, f"app names the application of commands: write it above the table {'.'.join(above)}")
            elif key == "retention" and isinstance(value, dict):
                for inner, length in value.items():
                    read = self._topics if inner == "topics" and isinstance(length, dict) else self._setting
                    yield from read((*keys, inner), f"retention.{inner}", length)
            elif key == "schedules" and isinstance(value, dict):
                for name, rhythm in value.items():
                    yield SCHEDULES + name, self._schedule((*keys, name), rhythm)
            elif key == "schedules":
                self._note(keys, f'schedules={value!r} must be a table, as in [schedules] with report = "0 7 * * *"')
            elif key == "retention":
                self._note(keys, f'retention={value!r} must be a table, as in [retention] with done = "1d"')
            else:
                yield from self._setting(keys, key, value)

    def _schedule(self, keys: Keys, value: object) -> Setting:
        options = value if isinstance(value, dict) else {}
        within = {each: f"{self._shown}:{self._file.place((*keys, each))[0]}" for each in options}
        return Setting(value, f"{self._shown}:{self._file.place(keys)[0]}", within)

    def _topics(self, keys: Keys, name: str, value: Mapping[str, object]) -> Iterator[tuple[str, Setting]]:
        """Yield the ages of all topics as one setting; each mistake in them has its own position."""
        read: dict[str, dict[Kind, timedelta | None]] = {}
        for inner, piece in pieces(value):
            for _, setting in self._setting((*keys, *inner), name, piece):
                for pattern, ages in cast("Topics", setting.value).items():
                    read.setdefault(pattern, {}).update(ages)
        line, _ = self._file.place((*keys, *list(value)[:1]))
        yield name, Setting(read, f"{self._shown}:{line}")

    def _setting(self, keys: Keys, name: str, value: object) -> Iterator[tuple[str, Setting]]:
        if name not in NAMES and name not in _PLACES:
            self._note(keys, f"there is no option {name!r}.{_known(name)}")
            return
        line, column = self._file.place(keys)
        try:
            read = _read(name, value, f"{self._shown}, line {line}, column {column}", name)
        except BadOption as error:
            self._problems.append(str(error))
            return
        if name == "url":
            read = _anchored(str(read), self._file.path.parent, self._here)
        yield name, Setting(read, f"{self._shown}:{line}")

    def _note(self, keys: Keys, what: str) -> None:
        line, column = self._file.place(keys)
        self._problems.append(redacted(f"{self._shown}, line {line}, column {column}: {what}"))


def _known(name: str) -> str:
    names = sorted({each.partition(".")[0] for each in NAMES} | {"apps", "schedules", *_PLACES})
    if name.startswith("retention."):
        names = [each for each in NAMES if each.startswith("retention.")]
    return closest(name, names) or f" There are {', '.join(names)}"


def _read(name: str, value: object, where: str, spelled: str) -> object:
    try:
        return _place(name, value) if name in _PLACES else READERS[name](value)
    except BadOption as error:
        message = str(error)
        # Every reader's error begins with the option, which has another name here.
        rest = message.removeprefix(name) if message.startswith(name) else f": {message}"
        raise BadOption(f"{where}: {spelled}{rest}") from None


def _place(name: str, value: object) -> str:
    if not isinstance(value, str):
        example = "shop:app" if name == "app" else "sqlite:///shop.db"
        raise BadOption(f"{name} must be text, as in {example!r}, not {type(value).__qualname__}")
    return value.strip()


def _anchored(url: str, home: Path, here: Path) -> str:
    """Resolve a relative SQLite path in a file against the directory of that file."""
    relative = _RELATIVE.fullmatch(url)
    return url if relative is None or home == here else f"{relative[1]}:///{home / relative[2]}"


def _value(settings: Settings, name: str) -> object:
    setting = settings.get(name)
    return None if setting is None else setting.value


def _shown(path: Path, here: Path) -> str:
    return path.name if path.parent == here else str(path)


def configure(
    url: object, arguments: Mapping[str, object], around: Environment | None = None
) -> tuple[Options, Address]:
    """Read all options: an argument overrides the environment, that the file, that the preset and the defaults.

    Raises BadOption for the first invalid setting, wherever it is, used or not.
    """
    around = read_environment() if around is None else around
    name = arguments.get("name")
    options = Options.read(arguments, *around.layers(name))
    around.check()
    set_at = Setting(url, "argument") if url is not None else around.url(name)
    if set_at is None:
        raise BadOption(
            f"no database is named: write Mainspring('sqlite:///shop.db'), set {URL}, or put a line "
            'url = "sqlite:///shop.db" into mainspring.toml (or below [tool.mainspring] of pyproject.toml)'
        )
    return replace(options, sources={"url": set_at.source, **options.sources}), read_address(set_at)


def read_address(setting: Setting) -> Address:
    """Read a URL; the error names its source, and nothing of its content."""
    try:
        return read_url(setting.value)
    except BadOption as error:
        raise BadOption(str(error) if setting.source == "argument" else f"{setting.source}: {error}") from None
