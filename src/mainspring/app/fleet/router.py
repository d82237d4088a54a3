"""Which database of a fleet a message goes to: by name, by the application's route, or by a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from mainspring.app.code import Code
from mainspring.app.fleet.databases import unknown
from mainspring.app.fleet.member import Member
from mainspring.app.fleet.transaction import elsewhere, members_of
from mainspring.app.message.envelope import PublishOptions
from mainspring.model.errors import BadHandle, BadOption, NotRouted, SchemaMissing, StorageError
from mainspring.model.text import described

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RoutedMessage:
    """A message as the function ``route`` sees it, which names its database."""

    topic: str
    payload: Any
    """The payload as it was given to the call; None for a cancel."""
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Target(NamedTuple):
    """The member that stores a message, and the database that it is for, if that is another one."""

    member: Member
    across: str | None = None


Route = Callable[[RoutedMessage], str | None]
"""Names the database of a message."""


class Router:
    """The choice of a member for each call. Raises before anything is stored."""

    def __init__(self, code: Code, route: Route | None, members: Callable[[], Mapping[str, Member]]) -> None:
        if route is not None and not callable(route):
            raise BadOption(f"route={route!r} must be a function that takes a RoutedMessage and returns a name")
        self._code = code
        self._route = route
        self._members = members

    def target(
        self, call: str, database: object, tx: object, message: object, payload: object, options: PublishOptions
    ) -> Target:
        """Return where a publish is stored: ``database`` may be another one than that of ``tx``."""
        outline = None
        if self._route is not None and database is None:
            topic, value = self._code.envelope.addressed(message, payload)
            outline = RoutedMessage(topic, value, options.get("key"), options.get("headers") or {})
        return self._chosen(call, database, tx, outline, crosses=True)

    def member_of_key(self, call: str, database: object, tx: object, which: object, key: str | None) -> Member:
        """Return the member of what is named by a topic, or a type, and a key."""
        topic = which if isinstance(which, str) else self._code.catalogue.topic_of(which)
        outline = None if key is None or topic is None or self._route is None else RoutedMessage(topic, None, key)
        return self._chosen(call, database, tx, outline, crosses=False).member

    def _chosen(
        self, call: str, database: object, tx: object, message: RoutedMessage | None, *, crosses: bool
    ) -> Target:
        members = self._members()
        named: Member | None = None
        said = f"database={database!r}"
        if database is not None:
            named = members.get(database) if isinstance(database, str) else None
            if named is None:
                raise unknown(database, members)
        elif message is not None:
            named, said = self._routed(call, message), f"route, for {message.topic!r},"
        if tx is not None:
            return self._enlisted(call, tx, named, said, crosses=crosses, by_name=database is not None)
        if named is None:
            raise NotRouted(f"{call}: nothing names the database: {self._advice}, or write fleet['acme']")
        return Target(named)

    @property
    def _advice(self) -> str:
        if self._route is None:
            return "pass database='acme', or give the fleet a function, Fleet(app, …, route=by_tenant)"
        return "pass database='acme', or a topic with key=, for which route is asked"

    def _enlisted(
        self, call: str, tx: object, named: Member | None, said: str, *, crosses: bool, by_name: bool
    ) -> Target:
        found, where = members_of(tx, self._members().values())
        if not found:
            raise elsewhere(where, self._members())
        if named is None:
            if len(found) == 1:
                return Target(found[0])
            names = ", ".join(sorted(each.name for each in found))
            raise NotRouted(
                f"{call}: tx= may be a transaction of {names}, its handle does not tell which: pass database="
            )
        if named not in found:
            if crosses and by_name and len(found) == 1:
                return Target(found[0], named.name)
            shown = repr(found[0].name) if where is None else f"{found[0].name!r} ({where.shown})"
            across = f"Write database={named.name!r} to have it sent across after the commit, let both name one"
            raise BadHandle(
                f"{call}: {said} names {named.name!r}, and tx= is a transaction of {shown}: a message can only be part "
                f"of a transaction of its own database. {across if crosses else 'Let both name one'}, or leave tx= out"
            )
        return Target(named)

    def _routed(self, call: str, message: RoutedMessage) -> Member:
        assert self._route is not None, "a message is outlined for the route only"
        members = self._members()
        try:
            name = self._route(message)
        except Exception as error:
            raise NotRouted(
                f"{call}: route has raised for topic {message.topic!r}: {described(error)}. Nothing was stored"
            ) from error
        if isinstance(name, str) and name in members:
            return members[name]
        advice = str(unknown(name, members)) if isinstance(name, str) else "it must return the name of a database"
        raise NotRouted(
            f"{call}: route returned {name!r} for topic {message.topic!r}: {advice}. Or pass database='acme'"
        )


@contextmanager
def naming(member: Member) -> Iterator[None]:
    """Add the name of the database to its errors."""
    try:
        yield
    except StorageError as error:
        text, name = str(error), f"database {member.name!r}: "
        advice = "; or `await fleet.migrate()`" if isinstance(error, SchemaMissing) else ""
        if not text.startswith(name):  # several callers may get one error
            error.args = (f"{name}{text}{advice}",)
        raise
