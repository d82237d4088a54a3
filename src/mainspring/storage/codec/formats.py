"""The formats of payloads: JSON, the default, and MessagePack: the same types in fewer bytes, and bytes among them."""

from __future__ import annotations

import codecs
import re
from typing import Any

import msgspec

from mainspring.model.errors import Unreadable
from mainspring.model.masking import Secrets
from mainspring.storage.codec.contract import BYTES, JSON, Read
from mainspring.storage.codec.types import (
    DEPTH,
    UNFIT,
    is_pydantic,
    mentions_pydantic,
    model_json,
    model_reader,
    model_values,
    spelled,
    strict_reader,
    summary,
    too_deep,
    unencodable,
)

MALFORMED = (msgspec.DecodeError, RecursionError, ValueError)
"""What a reader raises for bytes that do not fit."""

PREVIEW = 200
"""The maximum length of a preview of a payload."""

_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
# Every byte that cannot begin an array or a map: what is left of a payload bounds how deep it is.
_NOT_OPENING = bytes(set(range(256)) - {*range(0x80, 0xA0), *range(0xDC, 0xE0)})
_RAW = (bytes, bytearray, memoryview)


class JsonCodec:
    """JSON, as payloads are encoded by default: what a codec of your own may wrap."""

    content_type = JSON

    def encode(self, value: Any) -> bytes:
        """The JSON of a value. Raises Unencodable, naming the type and the path."""
        return encode_json(value)

    def decoder(self, annotation: Any) -> Read:
        """What reads JSON as this type, and raises Unreadable; raises BadSignature when none ever could be."""
        return _checked(json_reader(annotation), annotation, "JSON")


class MsgpackCodec:
    """MessagePack, for ``Mainspring(codecs=[MsgpackCodec()])``. It takes every type that JSON takes."""

    content_type = "application/msgpack"

    def encode(self, value: Any) -> bytes:
        """The MessagePack of a value. Raises Unencodable, naming the type and the path."""
        try:
            payload = _MSGPACK.encode(model_values(value) if is_pydantic(type(value)) else value)
        except RecursionError:
            raise too_deep() from None
        except UNFIT as error:
            raise unencodable(value, error, _MSGPACK.encode, "MessagePack") from error
        if len(payload) > DEPTH and len(payload.translate(None, _NOT_OPENING)) > DEPTH and _is_deep_msgpack(payload):
            raise too_deep()
        return payload

    def decoder(self, annotation: Any) -> Read:
        """What reads MessagePack as this type, and raises Unreadable; raises BadSignature when none ever could be.

        Unknown fields are ignored, values are never coerced (a pydantic model decides for itself).
        """
        return _checked(_msgpack_reader(annotation), annotation, "MessagePack")


def _checked(read: Read, annotation: Any, form: str) -> Read:
    def decode(payload: bytes) -> Any:
        try:
            return read(payload)
        except MALFORMED as error:
            raise misfit(error, annotation, form) from error

    return decode


def encode(value: object) -> tuple[bytes, str]:
    """Return the payload of ``value`` and its content type. Raises Unencodable, naming the type and the path."""
    if isinstance(value, _RAW):
        return bytes(value), BYTES
    return encode_json(value), JSON


def encode_json(value: object) -> bytes:
    """The JSON of a value, bytes as base64. Raises Unencodable, naming the type and the path."""
    try:
        payload = model_json(value) if is_pydantic(type(value)) else _JSON.encode(value)
    except RecursionError:
        raise too_deep() from None
    except UNFIT as error:
        raise unencodable(value, error, _JSON.encode, "JSON") from error
    # A level takes two bytes and a bracket, so hardly any payload is looked at twice.
    if len(payload) > 2 * DEPTH and payload.count(b"[") + payload.count(b"{") > DEPTH and _is_deep(payload):
        raise too_deep()
    return payload


def json_reader(annotation: Any) -> Read:
    """What reads JSON as this type; raises one of MALFORMED. Raises BadSignature when no JSON could ever be read so.

    Unknown fields are ignored, values are never coerced (a pydantic model decides for itself).
    """
    if annotation is Any or annotation is object:
        return _ANY_JSON.decode
    if mentions_pydantic(annotation):
        return model_reader(annotation)
    return strict_reader(msgspec.json.Decoder, annotation)


def misfit(error: Exception, annotation: Any, form: str = "JSON") -> Unreadable:
    """The complaint about bytes that are not of this form, or not of this type."""
    name = form if annotation is Any or annotation is object else spelled(annotation)
    return Unreadable(f"the payload is not {name}: {summary(error)}")


def _json_inside(value: Any) -> Any:
    if is_pydantic(type(value)):
        return msgspec.Raw(model_json(value))
    raise TypeError(type(value))


def _msgpack_reader(annotation: Any) -> Read:
    if annotation is Any or annotation is object:
        return _ANY_MSGPACK.decode
    if mentions_pydantic(annotation):
        validate = model_reader(annotation)
        # A model that is strict takes text for an instant from JSON, and from nothing else.
        return lambda payload: validate(encode_json(_ANY_MSGPACK.decode(payload)))
    return strict_reader(msgspec.msgpack.Decoder, annotation)


def _values_inside(value: Any) -> Any:
    if is_pydantic(type(value)):
        return model_values(value)
    raise TypeError(type(value))


def _is_deep(payload: bytes) -> bool:
    nest = _STRINGS.sub(b"", payload).translate(_BRACKETS, _NO_BRACKETS)
    for _ in range(DEPTH):
        # Each pass removes the innermost level everywhere at once, at the speed of C.
        nest = nest.replace(b"[]", b"")
        if not nest:
            return False
    return True


def _is_deep_msgpack(payload: bytes) -> bool:
    try:
        level = [_ANY_MSGPACK.decode(payload)]
    except RecursionError:
        return True
    for _ in range(DEPTH + 1):
        level = [each for each in level if isinstance(each, list | dict)]
        if not level:
            return False
        level = [child for each in level for child in (each.values() if isinstance(each, dict) else each)]
    return True


def preview(head: bytes, content_type: str, size: int) -> str:
    """Return the beginning of a payload of ``size`` bytes as text, its secrets masked; ``head`` was read of it."""
    text = _text(head, content_type, size)
    if text is None:
        return f"({size:,} bytes)"
    # Masked before it is cut: a cut name of a secret would not be recognised.
    text = _SECRETS.head(text)
    is_whole = size <= len(head) and len(text) <= PREVIEW
    return text if is_whole else f"{text[: PREVIEW - 1]}…"


def _text(head: bytes, content_type: str, size: int) -> str | None:
    """Return the payload as text; None for bytes that are none."""
    try:
        if size <= len(head) and content_type.partition(";")[0].strip().lower().endswith("msgpack"):
            return msgspec.json.encode(_ANY_MSGPACK.decode(head)).decode()
        # The last character may be cut.
        text = codecs.getincrementaldecoder("utf-8")().decode(head, final=size <= len(head))
    except (UnicodeDecodeError, msgspec.MsgspecError, RecursionError, TypeError, ValueError):
        return None
    return None if "\x00" in text else text


_SECRETS = Secrets()
_JSON = msgspec.json.Encoder(enc_hook=_json_inside)
_ANY_JSON = msgspec.json.Decoder()
_MSGPACK = msgspec.msgpack.Encoder(enc_hook=_values_inside)
_ANY_MSGPACK = msgspec.msgpack.Decoder()
