"""Messages that an operator publishes by hand: new ones, or copies, each noted in the audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict, cast
from uuid import UUID

from mainspring.app.envelope import MISSING, PriorityName, PublishOptions, read_identity
from mainspring.app.names import check_group
from mainspring.app.options import closest
from mainspring.app.post import Post
from mainspring.model.errors import BadOption
from mainspring.model.headers import public
from mainspring.model.message import Priority, Receipt
from mainspring.model.views import MessageView
from mainspring.storage.codec import with_version_of
from mainspring.storage.contract import Storage
from mainspring.timing.duration import Duration

_CALL = "messages.issue(…)"
_TRACE = ("traceparent", "tracestate")
"""Headers that tell which trace a message is part of. A copy is part of none."""


class IssueOptions(TypedDict):
    """What may be said of such a message beside its payload."""

    key: str | None
    headers: Mapping[str, str] | None
    priority: Priority | PriorityName | int | None
    delay: Duration | None


async def issue(
    storage: Storage,
    post: Post,
    topic: str,
    payload: object,
    said: IssueOptions,
    group: str | None,
    copy_of: UUID | str | None,
    by: str,
) -> Receipt:
    """See ``Messages.issue``."""
    original = None if copy_of is None else await _original(storage, copy_of)
    if group is not None:
        await _check_group(storage, group)
    cause = None if original is None else original.id
    draft = post.draft(topic, None if payload is MISSING else payload, _options(said, original), _CALL, cause)
    if original is not None and payload is MISSING:
        draft = replace(draft, payload=original.payload, content_type=original.content_type)
    elif original is not None and draft.topic == original.topic:
        draft = replace(draft, content_type=with_version_of(draft.content_type, original.content_type))
    if group is not None:
        draft = replace(draft, group=group)
    detail = [f"message {draft.id}", *([f"copy of {cause}"] if cause else []), *([f"for {group}"] if group else [])]
    # Before it is stored: what somebody has done may be noted and then fail, and must not go on unnoted.
    await storage.controls.noted("publish", draft.topic, by, ", ".join(detail))
    return await post.store(draft, {}, "app.messages.issue()")


def _options(said: IssueOptions, original: MessageView | None) -> PublishOptions:
    if original is None:
        return cast("PublishOptions", said)
    headers = public(original.headers) if said["headers"] is None else said["headers"]
    return {
        "key": original.key if said["key"] is None else said["key"],
        "headers": {name: value for name, value in headers.items() if name not in _TRACE},
        "priority": said["priority"],
        "delay": said["delay"],
        "correlation_id": original.correlation_id or str(original.id),
    }


async def _original(storage: Storage, copy_of: UUID | str) -> MessageView:
    found = await storage.ledger.find(read_identity(copy_of))
    if found is None:
        raise BadOption(f"there is no message {copy_of} to copy: it never was, or is over and gone")
    return found


async def _check_group(storage: Storage, group: str) -> None:
    check_group(group)
    known = [each.name for each in (await storage.ledger.roster()).groups]
    if group not in known:
        raise BadOption(f"there is no group {group!r}.{closest(group, known)} There are: {', '.join(known) or 'none'}")
