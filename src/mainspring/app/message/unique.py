"""``unique``: a publish that stores at most one message of its kind."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from mainspring.app.options import choice, closest, length
from mainspring.model.errors import BadOption
from mainspring.model.message import Draft, Keeps, Scope, UniqueKey
from mainspring.timing.duration import Duration

Basis = Literal["key", "payload"]
"""What two messages must have in common."""

_BASES = ("key", "payload")
_SCOPES = ("pending", "running")
_KEEPS = ("first", "last")
_SHORTEST = timedelta(milliseconds=1)
_LONGEST = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Unique:
    """The uniqueness of a message, as made by ``unique(…)``."""

    by: Basis
    scope: Scope
    keep: Keeps


def unique(
    by: Basis = "key", *, scope: Literal["pending", "running"] | Duration | None = None, keep: Keeps = "first"
) -> Unique:
    """Allow one message of its kind on its topic: by its key, or by its payload.

    An earlier one counts while no worker has taken it (scope "pending"), until it has ended ("running", the
    default), or for a time after its publish ("10m"). The first is kept, and the second is not stored; or the last is
    kept, and replaces what has not begun of the earlier one.
    """
    basis: Any = choice(by, _BASES, "unique(by=…): by")
    kept: Any = choice(keep, _KEEPS, "unique(keep=…): keep")
    if kept == "first":
        return Unique(basis, _scope("running" if scope is None else scope), kept)
    if scope not in (None, "pending"):
        raise BadOption(
            f"unique(scope={scope!r}, keep='last') is invalid: only what has not begun can be replaced. Leave the "
            "scope out, or keep='first'"
        )
    return Unique(basis, "pending", kept)


def unique_key_of(draft: Draft, options: Mapping[str, Any], call: str) -> UniqueKey | None:
    """Return the unique key of this draft; None without ``unique=``. Raises BadOption if that is invalid."""
    given = options.get("unique")
    if given is None:
        return None
    how = _read(given)
    if options.get("message_id") is not None:
        raise BadOption(
            f"{call} has unique= and message_id=: the same id again stores nothing, so that one of the two is enough. "
            "Leave the other out"
        )
    if how.by == "key" and draft.key is None:
        raise BadOption(f"{call} is unique by its key and has none: give key='…', or write unique='payload'")
    return UniqueKey(_hashed(draft, how.by), how.scope, how.keep)


def refuse_followed(options: Mapping[str, Any], call: str) -> None:
    """Raise for ``unique`` of a message with a follow-up."""
    if options.get("unique") is not None:
        raise BadOption(
            f"{call} has unique= and what follows it: nothing could follow a message that is not stored. Leave out "
            "unique=, or then= and failed="
        )


def refuse_many(options: Mapping[str, Any]) -> None:
    """Raise for ``unique`` if many are stored by one statement."""
    if options.get("unique") is not None:
        raise BadOption(
            "publish_many(…) stores all of its messages at once and cannot check each: leave unique out, or publish "
            "one by one, with tx= if they belong together"
        )


def _read(given: object) -> Unique:
    if isinstance(given, Unique):
        return given
    if isinstance(given, str) and given in _BASES:
        return unique(by=given)  # type: ignore[arg-type]
    hint = closest(given, _BASES) if isinstance(given, str) else ""
    raise BadOption(
        f"unique={given!r} must be 'key', 'payload', or made by unique(…), as in unique(by='key', scope='10m').{hint}"
    )


def _scope(given: object) -> Scope:
    match given:
        case "pending" | "running":
            return given
    try:
        return length(given, "unique(scope=…): scope", least=_SHORTEST, most=_LONGEST)
    except BadOption:
        if isinstance(given, str) and not any(letter.isdigit() for letter in given):
            raise BadOption(
                f"unique(scope={given!r}) is neither 'pending' nor 'running', nor a length of time like '10m'."
                f"{closest(given, _SCOPES)}"
            ) from None
        raise


def _hashed(draft: Draft, by: Basis) -> bytes:
    """Hash the topic, its one group, and the key or payload. Each part is preceded by its length."""
    value = (draft.key or "").encode() if by == "key" else draft.payload
    parts = [draft.topic.encode(), (draft.group or "").encode(), by.encode(), value]
    if by == "payload":
        parts.append(draft.content_type.encode())  # the same bytes of another version mean something else
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(len(part).to_bytes(8, "big"))
        hashed.update(part)
    return hashed.digest()
