"""Payloads that come back from a browser: as values, or as the text of one, and never with a mask in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn, TypeAlias

from msgspec import UNSET, Meta

from mainspring.dashboard.answers import Problem
from mainspring.dashboard.security.redaction import MASK, masked_at

PayloadText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1024 * 1024)]
"""JSON as text: browsers cannot hold every number that JSON can write."""


def edited(payload: Any, text: str | None) -> dict[str, Any]:
    """The payload that was given, as ``payload=…``; nothing where none was. Raises Problem."""
    if text is not None and payload is not UNSET:
        raise Problem(422, "invalid", "payload and payload_text were both given: leave one of them out")
    if text is not None:
        payload = _read(text)
    if payload is UNSET:
        return {}
    refuse_masks(payload, "payload")
    return {"payload": payload}


def refuse_masks(value: Any, what: str) -> None:
    """Raise Problem where a value still holds what was shown in place of a secret."""
    if (where := masked_at(value, what)) is not None:
        raise Problem(
            422, "masked", f"{where[:200]} still holds the mask {MASK}: write its value, or leave the field out"
        )


def refuse_masked_headers(headers: Mapping[str, str] | None) -> None:
    """The same for headers."""
    if headers is not None:
        refuse_masks(dict(headers), "headers")


def _read(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Problem(422, "invalid", f"payload_text is not JSON: {error.msg} at {place}") from None
    except (RecursionError, ValueError):
        raise Problem(422, "invalid", "payload_text is nested too deeply, or has a number too long") from None


def _no_number(name: str) -> NoReturn:
    raise Problem(422, "invalid", f"payload_text is not JSON: {name} is JavaScript's, write null or a number")
