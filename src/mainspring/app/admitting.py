"""Reading what is said of a message of the inbox: which one it is, its hash, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast, get_args
from uuid import UUID

from mainspring.app.names import check_group, check_name
from mainspring.app.options import choice, length, whole
from mainspring.model.errors import BadOption
from mainspring.model.inbox import Admission, Fate, InboxFilter, InboxKey, InboxStatus
from mainspring.model.wording import LONGEST, described
from mainspring.timing.duration import Duration

HASH_LIMIT = 128
STUCK_AFTER = timedelta(hours=1)
"""A message that somebody has been at for longer is stuck."""
STATUSES: tuple[InboxStatus, ...] = get_args(InboxStatus)
_MOST_LISTED = 10_000
_SECOND = timedelta(seconds=1)
_MOST_ATTEMPTS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody wants to have let in."""

    key: InboxKey
    hash: bytes | None
    retry_after: timedelta | None


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody says has become of a message."""

    key: InboxKey
    attempt: int
    fate: Fate
    error: str | None
    admitted_at: datetime | None = None
    """When it was let in, where the admission itself is at hand."""


class Unsaid:
    """The messages of blocks under way of which nobody has said yet what became of them."""

    def __init__(self) -> None:
        self._messages: dict[tuple[InboxKey, int], bool] = {}
        """Whether it was said in a transaction of the caller's, which may not have been committed."""

    def begin(self, said: Said) -> None:
        """A block begins."""
        self._messages[said.key, said.attempt] = False

    def heard(self, said: Said) -> None:
        """Somebody has said it."""
        self._messages.pop((said.key, said.attempt), None)

    def joined(self, said: Said) -> None:
        """Somebody has said it, if and when a transaction commits."""
        if (said.key, said.attempt) in self._messages:
            self._messages[said.key, said.attempt] = True

    def is_joined(self, said: Said) -> bool:
        """Whether a transaction decides, unless its block fails: then it was most likely rolled back."""
        return self._messages.get((said.key, said.attempt), False)

    def __contains__(self, said: Said) -> bool:
        """Whether it may still be to be said."""
        return (said.key, said.attempt) in self._messages


class Callers:
    """Reads the arguments of callers."""

    def __init__(self, app: str) -> None:
        self._app = app

    def key(self, message_id: object, source: object, group: str | None) -> InboxKey:
        """Which message is meant; without a group, that of the app."""
        chosen = self._app if group is None else check_group(group)
        return InboxKey(chosen, check_name(source, "source"), read_message_id(message_id))

    def asked(
        self, message_id: object, source: object, hash: object, group: str | None, retry_after: Duration | None
    ) -> Asked:
        """What is to be let in."""
        patience = None if retry_after is None else length(retry_after, "retry_after", least=_SECOND)
        return Asked(self.key(message_id, source, group), read_hash(hash), patience)

    def said(
        self, which: object, source: object, fate: Fate, error: object, attempt: int | None, group: str | None
    ) -> Said:
        """What became of a message: of an admission, or of keys with the number of the attempt."""
        told = None if error is None else read_error(error)
        if isinstance(which, Admission):
            if source is not None or attempt is not None or group is not None:
                raise BadOption("the admission says which message it is: leave out source=, attempt= and group=")
            _check_admitted(which, fate)
            key = InboxKey(which.group, which.source, which.message_id)
            return Said(key, which.attempts, fate, told, which.admitted_at)
        if source is None or attempt is None:
            raise BadOption(
                "which attempt is meant? Pass the admission itself, or message_id, source and "
                "attempt=admission.attempts: by it nobody is overruled who was let in later"
            )
        number = whole(attempt, "attempt", least=1, most=_MOST_ATTEMPTS)
        return Said(self.key(which, source, group), number, fate, told)

    def wanted(
        self,
        status: InboxStatus | None,
        group: str | None,
        source: str | None,
        message_id: str | UUID | None,
        before: datetime | None,
        limit: int,
        *,
        stuck: bool | Duration,
    ) -> InboxFilter:
        """Which messages are to be listed."""
        if before is not None and before.tzinfo is None:
            raise BadOption(f"before={before!r} has no time zone: write tzinfo=UTC, or the zone it is meant in")
        return InboxFilter(
            self.group(group),
            None if source is None else check_name(source, "source"),
            None if message_id is None else read_message_id(message_id),
            None if status is None else cast("InboxStatus", choice(status, STATUSES, "status")),
            None if stuck is False else STUCK_AFTER if stuck is True else length(stuck, "stuck"),
            before,
            whole(limit, "limit", least=1, most=_MOST_LISTED),
        )

    def group(self, name: str | None) -> str | None:
        """A group to look for as it is stored; None for any."""
        return None if name is None else check_group(name)


def read_message_id(value: object) -> str:
    """The id that the sender gave the message, as text."""
    if isinstance(value, UUID):
        return str(value)
    if not isinstance(value, str):
        raise BadOption(f"message_id={value!r} must be text or a UUID, not {type(value).__qualname__}")
    return check_name(value, "message_id")


def read_hash(value: object) -> bytes | None:
    """The hash of what was received, as bytes."""
    if value is None:
        return None
    if not isinstance(value, str | bytes):
        raise BadOption(
            f"hash={value!r} must be text or bytes, as in hashlib.sha256(body).hexdigest(), "
            f"not {type(value).__qualname__}"
        )
    read = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    if not 1 <= len(read) <= HASH_LIMIT:
        raise BadOption(f"hash must be 1 to {HASH_LIMIT} bytes, not {len(read)}: give the hash, not what was hashed")
    return read


def read_error(value: object) -> str:
    """What went wrong, in words that are not too many to store."""
    if isinstance(value, BaseException):
        return described(value)
    if not isinstance(value, str):
        raise BadOption(f"error={value!r} must be text or an exception, not {type(value).__qualname__}")
    return value if len(value) <= LONGEST else value[:LONGEST] + "…"


def _check_admitted(admission: Admission, fate: Fate) -> None:
    if not admission.admitted:
        raise BadOption(
            f"{admission.message_id!r} was not admitted, so that what becomes of it is not for this caller to say: "
            "write `if admission:` before it"
        )
    if admission.status == "done" and fate != "done":
        raise BadOption(f"{admission.message_id!r} was admitted in a transaction: roll that back, and it never was")
