"""Numbered migrations as plain SQL files: forward only, checksummed, some of them marked breaking."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, cast

from mainspring.model.errors import MIGRATE, SchemaDamaged, SchemaMissing, SchemaTooNew, StorageError
from mainspring.model.symptom import LostObject, Symptom
from mainspring.storage.script import prefixed

_NAME = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
_BREAKING = "-- breaking"
_TABLES = re.compile(r"""(?:^|["' ])(?P<schema>[a-z_][a-z0-9_]*)(?:-(?P<namespace>[a-z0-9_-]+))?(?:$|["'.])""")
_CONCURRENT = "-- concurrently"
_INDEX = re.compile(
    r"^(CREATE (?:UNIQUE )?INDEX (?:CONCURRENTLY )?\"?([\w-]+)\"?\s.*?);"
    r"|^DROP INDEX (?:IF EXISTS )?(?:[^;]*?\.)?\"?([\w-]+)\"?\s*;",
    re.MULTILINE | re.DOTALL,
)

_OBJECT = re.compile(
    r"^CREATE (?P<again>OR REPLACE )?(?P<code>FUNCTION|VIEW) mainspring\.(?P<named>\w+)"
    r"(?:\(.*?(?P<quote>\$[a-z]*\$).*?(?P=quote))?[^;]*;"
    r"|^CREATE (?:UNLOGGED )?(?P<store>TABLE|SEQUENCE) (?:IF NOT EXISTS )?mainspring[._](?P<name>\w+)"
    r"|^DROP (?P<dropped>TABLE|SEQUENCE|VIEW|FUNCTION) (?:IF EXISTS )?mainspring[._](?P<gone>\w+)",
    re.MULTILINE | re.DOTALL,
)
_WITHOUT_DATA = ("function", "view")
UNKNOWN_STATE = "other tables of Mainspring are there, and it is unknown for which release: restore it from a backup"
"""What to do where the table of migrations itself is missing."""
_QUOTE = '"'


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema. ``breaking`` means that older code cannot work once it is applied."""

    number: int
    name: str
    text: str
    breaking: bool

    @property
    def concurrent(self) -> bool:
        """Whether it makes indexes while others write, which no transaction can do: each statement stands alone.

        Such a file begins with ``-- concurrently``, and has nothing but CREATE INDEX CONCURRENTLY in it.
        """
        return self.text.startswith(_CONCURRENT)

    @property
    def checksum(self) -> str:
        """Of the text as written, before any prefix: a file changed after its release is refused."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def sql(self, prefix: str) -> str:
        """The text with the configured schema or prefix."""
        return prefixed(self.text, prefix)

    def at_once(self, prefix: str) -> str:
        """The same for tables that nothing uses yet: there is nothing to be concurrent with."""
        text = self.sql(prefix)
        return text.replace("INDEX CONCURRENTLY", "INDEX") if self.concurrent else text


@dataclass(frozen=True, slots=True)
class Applied:
    """A migration as the database remembers it."""

    number: int
    checksum: str
    breaking: bool


@cache
def migrations(package: str) -> tuple[Migration, ...]:
    """Return the migrations of a dialect, in order."""
    found = []
    for entry in (files(package) / "migrations").iterdir():
        named = _NAME.match(entry.name)
        if named:
            text = entry.read_text(encoding="utf-8")
            found.append(Migration(int(named[1]), entry.name[:-4], text, text.startswith(_BREAKING)))
    found.sort(key=lambda migration: migration.number)
    return tuple(found)


def pending(known: tuple[Migration, ...], applied: list[Applied]) -> list[Migration]:
    """Return the migrations to apply; rejects a file that differs from the applied one."""
    there = {each.number: each for each in applied}
    for migration in known:
        was = there.get(migration.number)
        if was is not None and was.checksum != migration.checksum:
            raise StorageError(
                f"migration {migration.name} was applied with other content (checksum {was.checksum[:12]}, this "
                f"release has {migration.checksum[:12]}): this database was made by another build of mainspring"
            )
    refuse_newer(known, applied)
    return [migration for migration in known if migration.number not in there]


def check(known: tuple[Migration, ...], applied: list[Applied], tables: str = "mainspring") -> None:
    """Raise unless this release can work with the applied migrations. A newer schema that breaks nothing is fine."""
    missing = pending(known, applied)
    if missing:
        found = max((each.number for each in applied), default=0)
        raise SchemaMissing(found, known[-1].number, tables=tables)


def flags(tables: str) -> str:
    """Return the options of ``mainspring migrate --url URL`` for a schema's name, or an error with one."""
    found = _TABLES.search(tables)
    if found is None:
        return ""
    schema, namespace = found["schema"], found["namespace"]
    return f" --schema {schema}" * (schema != "mainspring") + f" --namespace {namespace}" * (namespace is not None)


def refuse_newer(known: tuple[Migration, ...], applied: list[Applied]) -> None:
    """Reject a schema with a breaking migration that this release does not know."""
    newest = known[-1].number
    if any(each.breaking and each.number > newest for each in applied):
        raise SchemaTooNew(max(each.number for each in applied), newest)


def indexes(known: tuple[Migration, ...], prefix: str) -> dict[str, str]:
    """Return the statement that creates each index of the final schema, by its name."""
    made: dict[str, str] = {}
    for migration in known:
        for statement, name, dropped in _INDEX.findall(migration.sql(prefix)):
            if name:
                made[name] = " ".join(statement.split())
            else:
                made.pop(dropped, None)
    return made


Kind = Literal["table", "sequence", "view", "function"]
Objects = Mapping[tuple[str, str], int]
"""How many objects of a kind have a name; functions may share one."""


def lost(known: tuple[Migration, ...], applied: list[Applied], prefix: str, there: Objects) -> list[LostObject]:
    """Return what the applied migrations created, and is not there. A schema newer than this release is unknown.

    Functions and views hold no data: they come with the statements that create them again.
    """
    numbers = {each.number for each in applied}
    if max(numbers, default=0) > known[-1].number:
        return []
    made = objects(tuple(each for each in known if each.number in numbers))
    dot = "." if prefix.startswith('"') else "_"
    return [
        LostObject(
            kind,
            f"{prefix.strip(_QUOTE)}{dot}{name}",
            _remedy(kind),
            tuple(prefixed(each, prefix) for each in statements if each),
        )
        for (kind, name), statements in made.items()
        if there.get((kind, name), 0) < len(statements)
    ]


def refuse_lost(objects: Sequence[LostObject]) -> None:
    """Raise SchemaDamaged unless all of them can be created again."""
    gone = [each for each in objects if not each.statements]
    if gone:
        raise SchemaDamaged(tuple(map(str, gone)), gone[0].remedy)


def _remedy(kind: Kind) -> str:
    if kind in _WITHOUT_DATA:
        return f"run `{MIGRATE}`, which creates it again"
    return (
        "its content is lost, so that nothing can create it again: restore it from a backup, or, if all messages, "
        "schedules and their history may go, drop all tables of Mainspring and run "
        f"`{MIGRATE}`"
    )


def objects(known: tuple[Migration, ...]) -> dict[tuple[Kind, str], list[str]]:
    """Return what these migrations create and do not drop, by kind and name, in order.

    There is a text for each object of a name: what creates it again, or nothing where it has content.
    """
    made: dict[tuple[Kind, str], list[str]] = {}
    for migration in known:
        for found in _OBJECT.finditer(migration.text):
            kind = cast("Kind", (found["code"] or found["store"] or found["dropped"]).lower())
            key = kind, found["named"] or found["name"] or found["gone"]
            if found["dropped"]:
                made[key] = made.get(key, [])[1:]
            elif found["store"]:
                made[key] = [""]
            elif found["again"]:
                made[key] = [found[0]]
            else:
                made[key] = [*made.get(key, []), found[0].replace("CREATE ", "CREATE OR REPLACE ", 1)]
    return made


def of_indexes(known: tuple[Migration, ...], prefix: str, there: Collection[str], version: int) -> list[Symptom]:
    """Report dropped indexes. Those of a schema that is newer than this release are unknown."""
    if version > known[-1].number:
        return []
    lost = {name: statement for name, statement in indexes(known, prefix).items() if name not in there}
    return [
        Symptom("indexes", "error", f"{name} is missing: what needs it reads the whole table instead", f"{statement};")
        for name, statement in lost.items()
    ]
