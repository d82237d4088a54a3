"""``mainspring publish``: publish one message."""

from __future__ import annotations

import json as jsons
import sys
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from cyclopts import Parameter

from mainspring.cli.failures import Refused, interruptible
from mainspring.cli.tables import print_json, say
from mainspring.cli.target import UNNAMED, Json, Target
from mainspring.cli.words import when
from mainspring.model.redaction import redacted

_SHOWN = 20


def _not_an_option(_type: Any, value: str | None) -> None:
    # A lone hyphen and negative numbers are payloads; anything else that begins with a hyphen is a misspelt option.
    if value is not None and value.startswith("-") and not value[1:2].isdigit() and value != "-":
        raise Refused(f"there is no option {value}: see `--help`")


JsonText: Parameter = Parameter(metavar="JSON", allow_leading_hyphen=True, validator=_not_an_option)
"""How a parameter that is JSON, or `-` for stdin, is parsed."""


async def publish(
    topic: str,
    payload: Annotated[str, JsonText] = "null",
    /,
    *,
    delay: Annotated[str | None, Parameter(metavar="DURATION")] = None,
    at: Annotated[datetime | None, Parameter(metavar="TIME")] = None,
    key: str | None = None,
    priority: Literal["urgent", "high", "normal", "low"] = "normal",
    header: Annotated[
        tuple[str, ...], Parameter(name=["--header", "-H"], metavar="NAME=VALUE", negative="", show_default=False)
    ] = (),
    correlation_id: str | None = None,
    message_id: UUID | None = None,
    expires: Annotated[str | None, Parameter(metavar="DURATION")] = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
    """Publish a message.

    Parameters
    ----------
    topic
        The topic, such as orders.placed.
    payload
        The payload as JSON; `-` reads stdin.
    delay
        Deliver after this time, such as 15m.
    at
        Deliver at this time, such as 2030-01-31T09:00:00+01:00; a time without offset is this machine's.
    key
        The entity the message is about; `messages cancel --topic T --key K` finds it by this.
    priority
        One of four levels.
    header
        A header; repeatable.
    correlation_id
        The id of the operation this message belongs to.
    message_id
        The id; publishing it again stores nothing, and with another topic or payload is a conflict (exit code 1).
    expires
        Cancel it if it has not been delivered within this time.
    """
    value = read_json(payload)
    async with target.opened() as app:
        receipt = await app.publish(
            topic,
            value,
            delay=delay,
            at=at.astimezone() if at is not None else None,
            key=key,
            priority=priority,
            headers=_headers(header) if header else None,
            correlation_id=correlation_id,
            message_id=message_id,
            expires=expires,
        )
        stored = await app.messages.show(receipt.id)
    refused = receipt.status == "conflict"
    if json:
        print_json(receipt)
        return int(refused)
    known = f": a message with this id exists on {stored.topic}" if refused and stored is not None else ""
    say(f"{receipt.status} {receipt.id}{known}")
    for each in stored.deliveries if stored is not None and receipt.status == "stored" else ():
        if each.state == "parked":
            say(f"parked: no group subscribes to {topic} yet; start its worker, or run `mainspring declare`")
        elif each.state == "scheduled":
            say(f"{each.group} receives it {when(each.due_at)}")
    return int(refused)


def read_json(text: str) -> Any:
    """Parse a JSON argument; ``-`` reads stdin. Raises Refused with the position of the error."""
    if text == "-":
        text = _stdin()
    try:
        return jsons.loads(text, parse_constant=_no_number)
    except jsons.JSONDecodeError as error:
        near = f", near {text[max(0, error.pos - _SHOWN) : error.pos + _SHOWN]!r}"
        place = f"line {error.lineno}, column {error.colno}"
        # An excerpt could hold part of a password, which redaction would not recognise.
        raise Refused(
            f"the payload is not JSON: {error.msg} at {place}{near if redacted(text) == text else ''}"
        ) from error
    except RecursionError as error:
        raise Refused("the payload is nested too deeply") from error


def _stdin() -> str:
    try:
        with interruptible():
            text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise Refused(f"stdin is not UTF-8: {error.reason} at byte {error.start}") from error
    if not text.strip():
        raise Refused("the payload is `-`, and stdin was empty: pipe JSON into the command")
    return text


def _no_number(name: str) -> Any:
    raise Refused(f"the payload is not JSON: {name} is not allowed, write null or a number")


def _headers(given: tuple[str, ...]) -> dict[str, str]:
    headers = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise Refused(f"--header {each!r} must be NAME=VALUE")
        headers[name] = value
    return headers
