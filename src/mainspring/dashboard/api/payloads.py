"""Payloads: decoded, masked and truncated for display, and read from requests, which must not contain a mask."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, NoReturn

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from mainspring.dashboard.responses import Problem
from mainspring.dashboard.route import Params
from mainspring.dashboard.security.redaction import MASK, Redaction, masked_at

LONGEST = 64 * 1024
_BEYOND = 2_000
_HEX = 4 * 1024


class Payload(Struct, frozen=True):
    """A payload. A ``json`` one has its value, and in ``text`` its exact digits for editing."""

    kind: Literal["json", "text", "binary"]
    value: Any
    """The decoded value; text; or the first bytes in hexadecimal, two digits each."""
    text: str | None
    """The JSON, indented; null if it is not JSON or was truncated."""
    truncated: bool


def payload_of(raw: bytes, content_type: str, redaction: Redaction) -> Payload:
    """Convert the payload for display."""
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind.endswith("msgpack"):
            return _decoded(msgspec.msgpack.decode(raw, strict=False), redaction)
        if kind.endswith("json"):
            return _decoded(msgspec.json.decode(raw), redaction)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        pass  # not of its content type: shown as what it is
    # A payload of a text type is masked as text, even with invalid bytes: hexadecimal would reveal a secret.
    return _undecoded(raw, redaction, named_text=kind.endswith("json") or kind.startswith("text/"))


def _decoded(value: Any, redaction: Redaction) -> Payload:
    masked = redaction.value(value)
    try:
        encoded = msgspec.json.encode(masked)
    except TypeError:
        # MessagePack has keys and values that JSON lacks. Masked values stay masked.
        return _binary(msgspec.msgpack.encode(masked))
    text = msgspec.json.format(encoded, indent=2).decode()
    if len(text) > LONGEST:
        return Payload("text", text[:LONGEST], None, truncated=True)
    return Payload("json", masked, text, truncated=False)


def _undecoded(raw: bytes, redaction: Redaction, *, named_text: bool) -> Payload:
    try:
        text = raw.decode(errors="replace" if named_text else "strict")
    except UnicodeDecodeError:
        return _binary(raw)
    if "\x00" in text:
        if not named_text:
            return _binary(raw)
        text = text.replace("\x00", "\ufffd")
    # Masked before it is truncated: a truncated secret would not be recognised.
    return Payload("text", redaction.text(text[: LONGEST + _BEYOND])[:LONGEST], None, truncated=len(text) > LONGEST)


def _binary(raw: bytes) -> Payload:
    return Payload("binary", raw[:_HEX].hex(" "), None, truncated=len(raw) > _HEX)


PayloadText = Annotated[str, Meta(min_length=1, max_length=1024 * 1024)]


class NewPayload(Params, frozen=True):
    """A request with a payload: as a value, as JSON text, because browsers lack some JSON numbers, or none."""

    payload: Any | UnsetType = UNSET
    payload_text: PayloadText | None = None

    def given(self) -> dict[str, Any]:
        """Return it as ``payload=…``, or nothing if there is none. Raises Problem."""
        return given_payload(self.payload, self.payload_text)


def given_payload(value: Any, text: str | None) -> dict[str, Any]:
    """Return a payload that is given as a value or as JSON text, as ``payload=…``. Raises Problem."""
    if text is not None and value is not UNSET:
        raise Problem(422, "invalid", "payload and payload_text are both given: omit one")
    payload = value if text is None else _read(text)
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
