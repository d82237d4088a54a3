"""Every error Mainspring raises on purpose.

::

    MainspringError
    ├── Misuse                      the call is wrong; the message states what to change
    │   ├── BadOption  (ValueError)     an invalid option, duration, name or URL
    │   ├── BadHandle  (TypeError)      a ``tx`` that is not accepted, or would autocommit
    │   ├── BadSignature (TypeError)    an unsupported handler or payload type
    │   ├── Conflict                    two registrations of one name
    │   ├── NotOpen                     the app is used before ``async with app``
    │   ├── UnknownDatabase (KeyError)  a name that no database of the fleet has
    │   ├── NotRouted                   no database of the fleet could be determined for a publish
    │   └── MissingExtra (ImportError)  an optional package is not installed
    ├── Rejected  (ValueError)      a message that is rejected
    │   ├── PayloadTooLarge
    │   ├── Unencodable
    │   └── BadPayload                  it does not fit the type of its topic
    ├── Backlogged                  a group's pending_limit is reached: nothing was stored
    ├── Unreadable                  stored bytes that do not fit the handler's type
    │   └── NewerVersion                a version of the type that only newer code can read
    ├── ProcessDied                 the process of a ``cpu=True`` handler died
    ├── LeaseHeld                   another holder has the lease
    ├── LeaseLost                   the lease is no longer held
    ├── ClaimLost                   another holder has the delivery: nothing was settled
    ├── TransactionConflict         a handler's transaction kept colliding with others
    ├── StorageError                an error of the database
    │   ├── StorageUnavailable          it is unreachable; retry
    │   │   └── DatabaseMoved               its content moves, or has moved, to another database
    │   ├── NotGranted                  the role lacks a right; ``mainspring doctor`` prints the GRANT
    │   ├── SchemaMissing               ``mainspring migrate`` has not been run
    │   ├── SchemaDamaged               a table was dropped after its migration
    │   └── SchemaTooNew                the schema was changed by a newer, breaking release
    ├── BrokerError                 an error of a broker
    │   ├── BrokerUnavailable           it is unreachable; retry
    │   └── NotSent                     a direct publish that it has not confirmed
    └── Unmet (AssertionError)      a test within ``app.testing()`` did not see what it expected
        ├── UnexpectedDeadLetter        a message was given up
        ├── EndlessWork                 there was always more to run
        └── StuckHandler                a handler never returns
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from mainspring.model.redaction import redacted

_MOST_SHOWN = 10
"""How many names an error lists."""


class MainspringError(Exception):
    """The root of every error raised on purpose. Its message contains no password of a URL."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(redacted(each) if isinstance(each, str) else each for each in args))


class Misuse(MainspringError):
    """The call is wrong; the message states what to change."""


class BadOption(Misuse, ValueError):
    """An invalid option, duration, name or URL."""


class BadHandle(Misuse, TypeError):
    """A ``tx`` that is not accepted, or that would commit by itself."""


class BadSignature(Misuse, TypeError):
    """An unsupported handler or payload type."""


class Conflict(Misuse):
    """Two registrations of one name."""


class NotOpen(Misuse):
    """The app is used before it was opened."""

    def __init__(self, call: str, advice: str | None = None) -> None:
        opening = "needs an open app: write `async with app:` around it, or `async with app.worker():`"
        super().__init__(f"{call} {opening}" if advice is None else f"{call}: {advice}")


class UnknownDatabase(Misuse, KeyError):
    """A name that no database of the fleet has."""

    def __init__(self, name: object, known: Sequence[str], advice: str = "") -> None:
        self.name = name
        shown = ", ".join(known[:_MOST_SHOWN]) + (
            f" and {len(known) - _MOST_SHOWN} more" if len(known) > _MOST_SHOWN else ""
        )
        self.finding: str = f"{name!r} is no database of the fleet.{advice} There are: {shown or 'none'}"
        super().__init__(f"{self.finding}. If it is new, `await fleet.refresh()` asks for the databases again")

    def __str__(self) -> str:
        """Return the message; a KeyError would quote it."""
        return str(self.args[0])


class NotRouted(Misuse):
    """A publish for which no database of the fleet could be determined. Nothing was stored."""


class MissingExtra(Misuse, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str, purpose: str, *, or_extra: str | None = None) -> None:
        self.package = package
        self.extra = extra
        instead = "" if or_extra is None else f" or 'mainspring[{or_extra}]'"
        super().__init__(f"{purpose} needs {package}: pip install 'mainspring[{extra}]'{instead}")


class Rejected(MainspringError, ValueError):
    """A message that is rejected. Nothing was stored."""


class PayloadTooLarge(Rejected):
    """The encoded payload is over the limit."""

    def __init__(self, topic: str, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            f"the payload for topic {topic!r} is {size:,} bytes, over the limit of {limit:,}: "
            "store it elsewhere and send a reference, or raise Mainspring(payload_limit=…)"
        )


class Unencodable(Rejected):
    """The payload has no encoding."""


class BadPayload(Rejected):
    """The payload does not fit the type that its topic, or its consumer, is known to have."""

    def __init__(self, topic: str, kind: str, reason: str, remedy: str = "") -> None:
        self.topic = topic
        self.kind = kind
        self._problem = f"{topic}: {reason}. It must be {kind}: {remedy or 'change the payload'}"
        self._skippable = not remedy
        super().__init__(self.advising("pass validate=False"))

    def advising(self, skip: str) -> str:
        """Return the message, with what the caller does to skip the check, if it can be skipped there."""
        return f"{self._problem}, or {skip}" if self._skippable else self._problem


class Backlogged(MainspringError):
    """A group's ``pending_limit`` has no room for this. Nothing was stored."""

    def __init__(self, group: str, limit: int, pending: int, more: int = 1, waited: str | None = None) -> None:
        self.group = group
        self.limit = limit
        self.pending = pending
        if more > limit:
            text = f"{more:,} messages at once are more than the pending_limit of group {group!r}, which is {limit:,}"
            advice = f"Publish at most {limit:,} at a time, or raise the limit"
        else:
            room = "one more" if more == 1 else f"{more:,} more"
            still = "" if waited is None else f", after a wait of {waited}"
            text = f"group {group!r} has no room for {room}{still}: {pending:,} wait, its pending_limit is {limit:,}"
            advice = "Publish later, let more workers serve it, see `mainspring groups list`, or raise the limit"
        super().__init__(f"{text}. Nothing was stored. {advice}")


class Unreadable(MainspringError):
    """Stored bytes that do not fit the handler's type."""


class NewerVersion(Unreadable):
    """A message of a newer version of its type than this code knows: it waits for a worker that can read it."""


class ProcessDied(MainspringError):
    """The process of a ``cpu=True`` handler died before it returned. ``exit_code`` is negative for a signal."""

    def __init__(self, exit_code: int | None, text: str) -> None:
        self.exit_code = exit_code
        super().__init__(text)


class ClaimLost(MainspringError):
    """Another holder has the delivery, or it has ended: nothing was settled, and a transaction is rolled back.

    A queue names the items: for those in ``lost`` nothing was written, for those in ``settled``, the others of the
    call, it was. Both are empty in a caller's transaction, since it must be rolled back.
    """

    def __init__(self, text: str, lost: tuple[Any, ...] = (), settled: tuple[Any, ...] = ()) -> None:
        self.lost: tuple[Any, ...] = lost
        self.settled: tuple[Any, ...] = settled
        super().__init__(text)


class TransactionConflict(MainspringError):
    """A handler's transaction kept colliding with others; it is retried later like any failure."""


class LeaseHeld(MainspringError):
    """Another holder has the lease. ``holder`` is None if unknown."""

    def __init__(self, name: str, holder: str | None, waited: str | None = None) -> None:
        self.name = name
        self.holder = holder
        whose = "another holder" if holder is None else holder
        still = "" if waited is None else f", after a wait of {waited}"
        advice = "wait for it by hold(…, wait='1m'), or see `mainspring leases list`"
        super().__init__(f"the lease {name!r} is held by {whose}{still}: {advice}")


class LeaseLost(MainspringError):
    """The lease is no longer held: another holder may have acquired it."""

    def __init__(self, name: str, epoch: int, why: str) -> None:
        self.name = name
        self.epoch = epoch
        self.why = why
        super().__init__(f"the lease {name!r} is lost, epoch {epoch}: {why}. Stop what it guards, and acquire it again")


class StorageError(MainspringError):
    """An error of the database."""


class StorageUnavailable(StorageError):
    """The database is unreachable. Retrying is right and safe."""


_MOVED = re.compile(r"database '(.*)' (moves|has moved) to '(.*)': nothing is stored")


class DatabaseMoved(StorageUnavailable):
    """The content of a database of a fleet moves to another one, which refuses writes as well until that is done.

    ``name`` and ``target`` are the names of both; ``is_over``: the content is served in the target by now.
    """

    def __init__(self, name: str, target: str, *, is_over: bool) -> None:
        self.name = name
        self.target = target
        self.is_over = is_over
        said = f"the database {name!r} {'has moved' if is_over else 'moves'} to {target!r}, and nothing was stored"
        super().__init__(
            f"{said}: write fleet.publish(…), which finds the new place, or correct the URL; with tx=, begin the "
            f"transaction in the new place, and leave the old one alone"
            if is_over
            else f"{said}: try again soon; fleet.moves() and `mainspring fleet moves` tell how far it is"
        )

    @classmethod
    def read(cls, text: str) -> DatabaseMoved | None:
        """Return the error that a database's own is about; None if it is about something else."""
        found = _MOVED.search(text)
        return None if found is None else cls(found[1], found[3], is_over=found[2] == "has moved")


class NotGranted(StorageError):
    """The database is reachable, but the role lacks a right. The fields are None where they are not known."""

    def __init__(
        self,
        text: str,
        advice: str | None = None,
        *,
        role: str | None = None,
        object: str | None = None,
        operation: str | None = None,
    ) -> None:
        self.role = role
        self.object = object
        self.operation = operation
        during = "" if operation is None else f" in {operation}"
        doctor = "run `mainspring doctor` as this role, it prints the GRANT that is missing"
        super().__init__(f"{text}{during}: {advice or doctor}")


MIGRATE = "mainspring migrate --app MODULE:APP"
"""The command that creates the tables of an app, its schema and namespace included. A command line that knows the app
puts its own options in the place of the last two words."""


class SchemaMissing(StorageError):
    """The tables are missing, or some of them. ``tables`` is the name of the schema, or the prefix."""

    def __init__(
        self, found: int, needed: int, text: str | None = None, tables: str = "mainspring", what: str | None = None
    ) -> None:
        self.found = found
        self.needed = needed
        named = "" if tables == "mainspring" else f" {tables!r}"
        state = (
            f"has no Mainspring schema{named}" if found == 0 else f"is at schema version {found}, {needed} is needed"
        )
        state += "" if what is None else f", or not all of it ({what})"
        super().__init__(text or f"the database {state}: run `{MIGRATE}`, or open with auto_migrate=True")


class SchemaDamaged(StorageError):
    """Tables that migrations created are missing, with what was in them: ``missing`` names them."""

    def __init__(self, missing: tuple[str, ...], remedy: str) -> None:
        self.missing = missing
        super().__init__(
            f"{', '.join(missing)} is missing, although the migration that creates it was applied: {remedy}"
        )


class SchemaTooNew(StorageError):
    """The schema was changed by a newer release in a way this one cannot read."""

    def __init__(self, found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(
            f"the database is at schema version {found}, and this release knows up to {known}; "
            "a migration between them is marked breaking: upgrade mainspring on this node"
        )


class BrokerError(MainspringError):
    """An error of a broker."""


class BrokerUnavailable(BrokerError):
    """The broker is unreachable. Retrying is right and safe."""


class NotSent(BrokerError):
    """A direct publish that brokers have not confirmed, for all or some of its messages.

    ``ids`` are those of the messages, ``reasons`` what the broker of each route said, and ``rejected`` whether it will
    never take them as they are. Others may have arrived all the same.
    """

    def __init__(self, call: str, failed: Sequence[tuple[str, UUID, str, bool]], count: int) -> None:
        self.ids: tuple[UUID, ...] = tuple(dict.fromkeys(id for _, id, _, _ in failed))
        self.reasons: dict[str, str] = {route: reason for route, _, reason, _ in reversed(failed)}
        self.rejected: bool = all(rejected for *_, rejected in failed)
        said = "; ".join(f"{route}: {reason}" for route, reason in self.reasons.items())
        some = f"{self.ids[0]} was" if count == 1 else f"{len(self.ids)} of {count} messages were"
        mend = (
            "Mend what it names, and send again"
            if self.rejected
            else "It may have arrived: send it again under the same message_id, by which receivers know it"
        )
        super().__init__(
            f"{call} with direct=True: {some} not confirmed. {said}. {mend}; without direct=True the outbox keeps a "
            "message until the broker has confirmed it"
        )


class Unmet(MainspringError, AssertionError):
    """A test within ``app.testing()`` did not see what it expected."""


class UnexpectedDeadLetter(Unmet):
    """A message was given up, which the test did not expect. The handler's own error is the cause."""


class EndlessWork(Unmet):
    """There was always more to run: handlers that publish to each other, or to themselves."""


class StuckHandler(Unmet):
    """A handler never returns. Its own timeout passes only when the test advances the clock."""

    def __init__(self, group: str, patience: float, where: str = "") -> None:
        self.group = group
        stands = f", and is blocked here:\n{where}" if where else ""
        super().__init__(
            f"{group} has not ended within {patience:g} s of real time{stands}\nIn a test provide what it waits for, "
            "or pass app.testing(patience='30s') if it really takes so long. To have it time out, call "
            "kit.elapse('31s') in what it waits for"
        )
