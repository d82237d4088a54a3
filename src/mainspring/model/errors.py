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
    ├── Unreadable                  stored bytes that do not fit the handler's type
    └── StorageError                the database said no
        ├── StorageUnavailable          it cannot be reached now; trying again is right
        ├── SchemaMissing               ``mainspring migrate`` has not been run
        └── SchemaTooNew                the schema was changed by a newer, breaking release
"""

from __future__ import annotations


class MainspringError(Exception):
    """The root of every error raised on purpose."""


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

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f"{purpose} needs {package}: pip install 'mainspring[{extra}]'")


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


class Unreadable(MainspringError):
    """Stored bytes that do not fit the handler's type."""


class StorageError(MainspringError):
    """The database said no."""


class StorageUnavailable(StorageError):
    """The database cannot be reached now. Trying again is right and safe."""


class SchemaMissing(StorageError):
    """The tables are not there, or not all of them."""

    def __init__(self, found: int, needed: int) -> None:
        self.found = found
        self.needed = needed
        state = "has no Mainspring schema" if found == 0 else f"is at schema version {found}, {needed} is needed"
        super().__init__(f"the database {state}: run `mainspring migrate`, or open with auto_migrate=True")


class SchemaTooNew(StorageError):
    """The schema was changed by a newer release in a way this one cannot read."""

    def __init__(self, found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(
            f"the database is at schema version {found}, and this release knows up to {known}; "
            "a migration between them is marked breaking: upgrade mainspring on this node"
        )
