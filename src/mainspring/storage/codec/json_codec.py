"""JSON, the default encoding of payloads."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from mainspring.model.errors import Unreadable
from mainspring.storage.codec.contract import BYTES, JSON, Read
from mainspring.storage.codec.errors import DEPTH, UNFIT, too_deep, unencodable
from mainspring.storage.codec.types import (
    is_pydantic,
    mentions_pydantic,
    model_json,
    model_reader,
    said,
    spelled,
    strict_reader,
)

MALFORMED = (msgspec.DecodeError, RecursionError, ValueError)
"""What a reader of JSON raises for bytes that do not fit."""

_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_ANYTHING_ELSE = bytes(set(range(256)) - set(b"[]{}"))
_RAW = (bytes, bytearray, memoryview)


class JsonCodec:
    """JSON, as payloads are encoded by default: what a codec of your own may wrap."""

    content_type = JSON

    def encode(self, value: Any) -> bytes:
        """The JSON of a value. Raises Unencodable, naming the type and the path."""
        return encode_json(value)

    def decoder(self, annotation: Any) -> Read:
        """What reads JSON as this type, and raises Unreadable; raises BadSignature when none ever could be."""
        read = json_reader(annotation)

        def decode(payload: bytes) -> Any:
            try:
                return read(payload)
            except MALFORMED as error:
                raise misfit(error, annotation) from error

        return decode


def encode(value: object) -> tuple[bytes, str]:
    """Return the payload of ``value`` and its content type. Raises Unencodable, naming the type and the path."""
    if isinstance(value, _RAW):
        return bytes(value), BYTES
    return encode_json(value), JSON


def encode_json(value: object) -> bytes:
    """The JSON of a value, bytes as base64. Raises Unencodable, naming the type and the path."""
    try:
        payload = model_json(value) if is_pydantic(type(value)) else _ENCODER.encode(value)
    except RecursionError:
        raise too_deep() from None
    except UNFIT as error:
        raise unencodable(value, error, _ENCODER.encode, "JSON") from error
    # A level takes two bytes and a bracket, so hardly any payload is looked at twice.
    if len(payload) > 2 * DEPTH and payload.count(b"[") + payload.count(b"{") > DEPTH and _is_deep(payload):
        raise too_deep()
    return payload


def json_reader(annotation: Any) -> Read:
    """What reads JSON as this type; raises one of MALFORMED. Raises BadSignature when no JSON could ever be read so.

    Unknown fields are ignored, values are never coerced (a pydantic model decides for itself).
    """
    if annotation is Any or annotation is object:
        return _ANYTHING.decode
    if mentions_pydantic(annotation):
        return model_reader(annotation)
    return strict_reader(msgspec.json.Decoder, annotation)


def misfit(error: Exception, annotation: Any, form: str = "JSON") -> Unreadable:
    """The complaint about bytes that are not of this form, or not of this type."""
    name = form if annotation is Any or annotation is object else spelled(annotation)
    return Unreadable(f"the payload is not {name}: {said(error)}")


def _inside(value: Any) -> Any:
    if is_pydantic(type(value)):
        return msgspec.Raw(model_json(value))
    raise TypeError(type(value))


def _is_deep(payload: bytes) -> bool:
    nest = _STRINGS.sub(b"", payload).translate(_BRACKETS, _ANYTHING_ELSE)
    for _ in range(DEPTH):
        # Each pass removes the innermost level everywhere at once, at the speed of C.
        nest = nest.replace(b"[]", b"")
        if not nest:
            return False
    return True


_ENCODER = msgspec.json.Encoder(enc_hook=_inside)
_ANYTHING = msgspec.json.Decoder()
