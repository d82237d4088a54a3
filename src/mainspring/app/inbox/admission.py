"""Arguments of ``app.inbox``: the message, its hash, and the outcome reported for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, cast, get_args
from uuid import UUID

from mainspring.app.names import check_group, check_name
from mainspring.app.options import choice, length, whole
from mainspring.model.errors import BadOption
from mainspring.model.inbox import Admission, Fate, InboxFilter, InboxKey, InboxStatus
from mainspring.model.text import LONGEST, described
from mainspring.timing.duration import Duration

HASH_LIMIT = 128
STUCK_AFTER = timedelta(hours=1)
"""A message that is in processing for longer is stuck."""
STATUSES: tuple[InboxStatus, ...] = get_args(InboxStatus)
_SECOND = timedelta(seconds=1)
InboxPlace = tuple[datetime, str, str, str]
"""The place of a message in the list: the time of its change, and its key."""
_MOST_ATTEMPTS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class AdmitRequest:
    """The arguments of ``admit``, checked."""

    key: InboxKey
    hash: bytes | None
    retry_after: timedelta | None


class Outcome(NamedTuple):
    """The outcome that a caller reports: the arguments of the storage's ``mark``."""

    key: InboxKey
    attempt: int
    fate: Fate
    error: str | None
    admitted_at: datetime | None = None
    """When it was admitted, if the caller passed the admission."""


class OpenBlocks:
    """The messages of running ``once`` blocks whose outcome is not reported yet."""

    def __init__(self) -> None:
        self._messages: dict[tuple[InboxKey, int], bool] = {}
        """Whether it was reported in a caller's transaction, which may not have been committed."""

    def begin(self, outcome: Outcome) -> None:
        """Add a block."""
        self._messages[outcome.key, outcome.attempt] = False

    def drop(self, outcome: Outcome) -> None:
        """Drop a reported one."""
        self._messages.pop((outcome.key, outcome.attempt), None)

    def enlisted(self, outcome: Outcome) -> None:
        """Mark it as reported once a transaction commits."""
        if (outcome.key, outcome.attempt) in self._messages:
            self._messages[outcome.key, outcome.attempt] = True

    def is_enlisted(self, outcome: Outcome) -> bool:
        """Return whether a transaction decides, unless its block fails: then it was probably rolled back."""
        return self._messages.get((outcome.key, outcome.attempt), False)

    def __contains__(self, outcome: Outcome) -> bool:
        """Return whether it is unreported."""
        return (outcome.key, outcome.attempt) in self._messages


class InboxArguments:
    """Parser of the inbox's arguments."""

    def __init__(self, app: str) -> None:
        self._app = app

    def key(self, message_id: object, source: object, group: str | None) -> InboxKey:
        """Return the message's key; without a group, the app's."""
        chosen = self._app if group is None else check_group(group)
        return InboxKey(chosen, check_name(source, "source"), read_message_id(message_id))

    def request(
        self, message_id: object, source: object, hash: object, group: str | None, retry_after: Duration | None
    ) -> AdmitRequest:
        """Check an admission."""
        patience = None if retry_after is None else length(retry_after, "retry_after", least=_SECOND)
        return AdmitRequest(self.key(message_id, source, group), read_hash(hash), patience)

    def outcome(
        self, which: object, source: object, fate: Fate, error: object, attempt: int | None, group: str | None
    ) -> Outcome:
        """Return the outcome of a message: by its admission, or by its keys and attempt number."""
        text = None if error is None else read_error(error)
        if isinstance(which, Admission):
            if source is not None or attempt is not None or group is not None:
                raise BadOption("the admission identifies the message: leave out source=, attempt= and group=")
            _check_admitted(which, fate)
            key = InboxKey(which.group, which.source, which.message_id)
            return Outcome(key, which.attempts, fate, text, which.admitted_at)
        if source is None or attempt is None:
            raise BadOption(
                "which attempt is it? Pass the admission itself, or message_id, source and "
                "attempt=admission.attempts: it protects a later admission"
            )
        number = whole(attempt, "attempt", least=1, most=_MOST_ATTEMPTS)
        return Outcome(self.key(which, source, group), number, fate, text)

    def wanted(
        self,
        status: InboxStatus | None,
        group: str | None,
        source: str | None,
        message_id: str | UUID | None,
        after: InboxPlace | None,
        limit: int,
        *,
        stuck: bool | Duration,
    ) -> InboxFilter:
        """Return the filter of ``list``."""
        at, *past = after or (None,)
        return InboxFilter(
            self.group(group),
            None if source is None else check_name(source, "source"),
            None if message_id is None else read_message_id(message_id),
            None if status is None else cast("InboxStatus", choice(status, STATUSES, "status")),
            None if stuck is False else STUCK_AFTER if stuck is True else length(stuck, "stuck"),
            at,
            limit,
            InboxKey(*past) if past else None,
        )

    def group(self, name: str | None) -> str | None:
        """Return the group to look up as stored; None: any."""
        return None if name is None else check_group(name)


def read_message_id(value: object) -> str:
    """Return the sender's message id as text."""
    if isinstance(value, UUID):
        return str(value)
    if not isinstance(value, str):
        raise BadOption(f"message_id={value!r} must be text or a UUID, not {type(value).__qualname__}")
    return check_name(value, "message_id")


def read_hash(value: object) -> bytes | None:
    """Return the hash as bytes."""
    if value is None:
        return None
    if not isinstance(value, str | bytes):
        raise BadOption(
            f"hash={value!r} must be text or bytes, as in hashlib.sha256(body).hexdigest(), "
            f"not {type(value).__qualname__}"
        )
    read = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    if not 1 <= len(read) <= HASH_LIMIT:
        raise BadOption(f"hash must be 1 to {HASH_LIMIT} bytes, not {len(read)}: pass the hash, not the content")
    return read


def read_error(value: object) -> str:
    """Return the error as text, truncated for storage."""
    if isinstance(value, BaseException):
        return described(value)
    if not isinstance(value, str):
        raise BadOption(f"error={value!r} must be text or an exception, not {type(value).__qualname__}")
    return value if len(value) <= LONGEST else value[:LONGEST] + "…"


def _check_admitted(admission: Admission, fate: Fate) -> None:
    if not admission.admitted:
        raise BadOption(
            f"{admission.message_id!r} was not admitted, so this caller cannot report its outcome: "
            "write `if admission:` before it"
        )
    if admission.status == "done" and fate != "done":
        raise BadOption(f"{admission.message_id!r} was admitted in a transaction: roll that back instead")
