"""Every error Mainspring raises on purpose.

::

    MainspringError
    ├── Misuse                      the call is wrong; the message says what to change
    │   ├── BadOption  (ValueError)     an option, duration, name or URL that cannot be meant
    │   ├── BadHandle  (TypeError)      a ``tx`` that is not accepted, or would autocommit
    │   ├── BadSignature (TypeError)    a handler or payload type that cannot be served
    │   ├── Conflict                    two registrations claim one name
    │   ├── NotOpen                     the app is used before ``async with app``
    │   └── MissingExtra (ImportError)  an optional package is not installed
    ├── Rejected  (ValueError)      a message that may not be stored
    │   ├── PayloadTooLarge
    │   └── Unencodable
    ├── Backlogged                  too much waits for a group already: nothing was stored
    ├── Unreadable                  stored bytes that do not fit the handler's type
    ├── ProcessDied                 the process of a ``cpu=True`` handler ended before it had answered
    ├── LeaseHeld                   somebody else holds the lease
    ├── LeaseLost                   the lease is no longer ours
    ├── ClaimLost                   somebody else holds the delivery by now: what was done for it is undone
    ├── TransactionConflict         a handler's transaction collided with others, time and again
    ├── StorageError                the database said no
    │   ├── StorageUnavailable          it cannot be reached now; trying again is right
    │   ├── NotGranted                  the role lacks a right; ``mainspring doctor`` prints the GRANT
    │   ├── SchemaMissing               ``mainspring migrate`` has not been run
    │   └── SchemaTooNew                the schema was changed by a newer, breaking release
    └── Unmet (AssertionError)      a test within ``app.testing()`` did not see what it expected
        ├── UnexpectedDeadLetter        a message was given up
        ├── EndlessWork                 there was always more to run
        └── StuckHandler                a handler waits for what never comes
"""

from __future__ import annotations

from typing import Any

from mainspring.model.redaction import redacted


class MainspringError(Exception):
    """The root of every error raised on purpose. Whatever its message quotes, it holds no password of a URL."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(redacted(each) if isinstance(each, str) else each for each in args))


class Misuse(MainspringError):
    """The call is wrong; the message says what to change."""


class BadOption(Misuse, ValueError):
    """An option, duration, name or URL that cannot be meant."""


class BadHandle(Misuse, TypeError):
    """A ``tx`` that is not accepted, or that would commit by itself."""


class BadSignature(Misuse, TypeError):
    """A handler or a payload type that cannot be served."""


class Conflict(Misuse):
    """Two registrations claim one name."""


class NotOpen(Misuse):
    """The app is used before it was opened."""

    def __init__(self, call: str) -> None:
        super().__init__(f"{call} needs an open app: write `async with app:` around it, or `async with app.worker():`")


class MissingExtra(Misuse, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str, purpose: str, *, or_extra: str | None = None) -> None:
        self.package = package
        self.extra = extra
        instead = "" if or_extra is None else f" or 'mainspring[{or_extra}]'"
        super().__init__(f"{purpose} needs {package}: pip install 'mainspring[{extra}]'{instead}")


class Rejected(MainspringError, ValueError):
    """A message that may not be stored. Nothing was stored."""


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


class Backlogged(MainspringError):
    """So much waits for a group that its ``pending_limit`` has no room for this. Nothing was stored."""

    def __init__(self, group: str, limit: int, pending: int, more: int = 1, waited: str | None = None) -> None:
        self.group = group
        self.limit = limit
        self.pending = pending
        if more > limit:
            said = f"{more:,} messages at once are more than the pending_limit of group {group!r}, which is {limit:,}"
            advice = f"Publish at most {limit:,} at a time, or raise the limit"
        else:
            room = "one more" if more == 1 else f"{more:,} more"
            still = "" if waited is None else f", after a wait of {waited}"
            said = f"group {group!r} has no room for {room}{still}: {pending:,} wait, its pending_limit is {limit:,}"
            advice = "Publish later, let more workers serve it, see `mainspring groups list`, or raise the limit"
        super().__init__(f"{said}. Nothing was stored. {advice}")


class Unreadable(MainspringError):
    """Stored bytes that do not fit the handler's type."""


class ProcessDied(MainspringError):
    """The process of a ``cpu=True`` handler ended before it had answered. ``exit_code`` is negative for a signal."""

    def __init__(self, exit_code: int | None, said: str) -> None:
        self.exit_code = exit_code
        super().__init__(said)


class ClaimLost(MainspringError):
    """Somebody else holds the delivery by now, or it is over: nothing was settled, and a transaction is undone.

    A queue tells of which items: for those in ``lost`` nothing was written, for those in ``settled``, the others of the
    call, it was. In a transaction of the caller's there are none of these, since it is to be rolled back.
    """

    def __init__(self, said: str, lost: tuple[Any, ...] = (), settled: tuple[Any, ...] = ()) -> None:
        self.lost: tuple[Any, ...] = lost
        self.settled: tuple[Any, ...] = settled
        super().__init__(said)


class TransactionConflict(MainspringError):
    """A handler's transaction collided with others, time and again; it is tried later as any failure is."""


class LeaseHeld(MainspringError):
    """Somebody else holds the lease. ``holder`` is None where that could not be found out."""

    def __init__(self, name: str, holder: str | None, waited: str | None = None) -> None:
        self.name = name
        self.holder = holder
        whose = "somebody" if holder is None else holder
        still = "" if waited is None else f", after a wait of {waited}"
        advice = "wait for it by hold(…, wait='1m'), or see `mainspring leases list`"
        super().__init__(f"the lease {name!r} is held by {whose}{still}: {advice}")


class LeaseLost(MainspringError):
    """The lease is no longer ours: whatever it guards may be somebody else's by now."""

    def __init__(self, name: str, epoch: int, why: str) -> None:
        self.name = name
        self.epoch = epoch
        self.why = why
        super().__init__(f"the lease {name!r} is lost, epoch {epoch}: {why}. Stop what it guards, and acquire it anew")


class StorageError(MainspringError):
    """The database said no."""


class StorageUnavailable(StorageError):
    """The database cannot be reached now. Trying again is right and safe."""


class NotGranted(StorageError):
    """The database answers, and the role that it is asked by lacks a right."""

    def __init__(self, said: str) -> None:
        super().__init__(f"{said}: run `mainspring doctor` as this role, it prints the GRANT that is missing")


class SchemaMissing(StorageError):
    """The tables are not there, or not all of them."""

    def __init__(self, found: int, needed: int, told: str | None = None, flags: str = "") -> None:
        self.found = found
        self.needed = needed
        state = "has no Mainspring schema" if found == 0 else f"is at schema version {found}, {needed} is needed"
        command = f"mainspring migrate{flags}"
        super().__init__(told or f"the database {state}: run `{command}`, or open with auto_migrate=True")


class SchemaTooNew(StorageError):
    """The schema was changed by a newer release in a way this one cannot read."""

    def __init__(self, found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(
            f"the database is at schema version {found}, and this release knows up to {known}; "
            "a migration between them is marked breaking: upgrade mainspring on this node"
        )


class Unmet(MainspringError, AssertionError):
    """A test within ``app.testing()`` did not see what it expected."""


class UnexpectedDeadLetter(Unmet):
    """A message was given up, and the test had not said that it would be. The handler's own error is the cause."""


class EndlessWork(Unmet):
    """There was always more to run: handlers that publish to each other, or to themselves."""


class StuckHandler(Unmet):
    """A handler waits for something that never comes. Its own timeout passes only as the test's clock is turned."""

    def __init__(self, group: str, patience: float, where: str = "") -> None:
        self.group = group
        stands = f", and stands here:\n{where}" if where else ""
        super().__init__(
            f"{group} has not ended within {patience:g} s of real time{stands}\n"
            "In a test give it what it waits for, or say app.testing(patience='30s') where it really takes so long. "
            "To have it time out, call kit.elapse('31s') in what it waits for"
        )
