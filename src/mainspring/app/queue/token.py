"""Tokens of items: a claim as text, to be settled by another process than the one that claimed."""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from mainspring.app.queue.options import QueueSettings
from mainspring.model.errors import BadOption
from mainspring.model.message import Claim

_VERSION = 1
_WRITTEN = re.compile(r"item([1-9][0-9]{0,3})\.([A-Za-z0-9_-]+)")


class Token(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The fence of one claim, and where it is; the fields of version 1, in this order.

    Of the holder it has a digest, which is also of the claim: it names no machine, and the token of one item does not
    yield that of another.
    """

    tables: str
    """The tables of its namespace."""
    group: str
    id: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    epoch: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    message_id: UUID
    proof: str
    """The digest of the holder and the claim."""
    due_at: Annotated[datetime, Meta(tz=True)]
    """When it was due before the claim, which the database does not store; retries of a schedule depend on it."""

    @property
    def claim(self) -> Claim:
        """The claim."""
        return Claim(self.id, self.epoch, self.message_id)

    def is_of(self, holder: str) -> bool:
        """Return whether the claim is this holder's (invariant 2)."""
        return hmac.compare_digest(self.proof.encode(), proof(holder, self.claim).encode())

    @property
    def written(self) -> str:
        """The token as text."""
        return f"item{_VERSION}.{urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip('=')}"


def proof(holder: str, claim: Claim) -> str:
    """Return the digest of a claim and its holder, which is too random to be guessed (``model.worker.holder``)."""
    return hashlib.sha256(f"{holder}\n{claim.id}\n{claim.epoch}\n{claim.message_id}".encode()).hexdigest()[:32]


def read_token(text: object, settings: QueueSettings) -> Token:
    """Read the token of an item of this queue; raises BadOption."""
    found = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise _unreadable()
    version = int(found[1])
    if version != _VERSION:
        raise BadOption(
            f"queue.item(…): a newer release of Mainspring has written this token, in version {version}, and this "
            f"process reads version {_VERSION}: upgrade Mainspring here, then pass it again"
        )
    try:
        token = msgspec.json.decode(urlsafe_b64decode(found[2] + "=" * (-len(found[2]) % 4)), type=Token)
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError):
        raise _unreadable() from None
    if token.tables != settings.tables:
        raise BadOption(
            f"queue.item(…): the token is of an item in the tables {token.tables!r}, and this app uses "
            f"{settings.tables!r}: pass it to an app with the namespace= and schema= of the one that claimed it"
        )
    check_group_of(token.group, settings)
    return token


def check_group_of(group: str, settings: QueueSettings) -> None:
    """Raise BadOption for an item of another group."""
    if group != settings.group:
        raise BadOption(
            f"queue.item(…): the token is of an item of the group {group!r}, and this is the queue "
            f"{settings.group!r}: write app.queue({group!r}).item(…)"
        )


def _unreadable() -> BadOption:
    # The text is not shown: a token that was cut is still nearly one, and many read a log.
    return BadOption("queue.item(…): this is no token of an item: pass the whole text of item.token")
