"""Payloads sent by a browser: as values or as JSON text, and rejected if they contain a mask."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn, TypeAlias

from msgspec import UNSET, Meta

from mainspring.dashboard.answers import Problem
from mainspring.dashboard.security.redaction import MASK, masked_at

PayloadText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1024 * 1024)]
"""JSON as text: browsers cannot represent every JSON number."""


def edited(payload: Any, text: str | None) -> dict[str, Any]:
    """Return the given payload as ``payload=…``, or nothing if there is none. Raises Problem."""
    if text is not None and payload is not UNSET:
        raise Problem(422, "invalid", "payload and payload_text are both given: omit one")
    if text is not None:
        payload = _read(text)
    if payload is UNSET:
        return {}
    refuse_masks(payload, "payload")
    return {"payload": payload}


def refuse_masks(value: Any, what: str) -> None:
    """Raise Problem if a value still contains the mask of a secret."""
    if (where := masked_at(value, what)) is not None:
        raise Problem(
            422, "masked", f"{where[:200]} still contains the mask {MASK}: write its value, or omit the field"
        )


def refuse_masked_headers(headers: Mapping[str, str] | None) -> None:
    """Raise Problem if a header still contains the mask of a secret."""
    if headers is not None:
        refuse_masks(dict(headers), "headers")


def _read(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Problem(422, "invalid", f"payload_text is not JSON: {error.msg} at {place}") from None
    except (RecursionError, ValueError):
        raise Problem(422, "invalid", "payload_text is nested too deeply, or has too long a number") from None


def _no_number(name: str) -> NoReturn:
    raise Problem(422, "invalid", f"payload_text is not JSON: {name} is not allowed, write null or a number")
