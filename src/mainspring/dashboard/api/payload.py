"""A payload for display: decoded, masked, and truncated if it is long."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from mainspring.dashboard.security.redaction import Redaction

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
