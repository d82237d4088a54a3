"""MessagePack: the same types as JSON in fewer bytes, and bytes among them."""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.storage.codec.contract import Read
from mainspring.storage.codec.errors import DEPTH, UNFIT, too_deep, unencodable
from mainspring.storage.codec.json_codec import MALFORMED, encode_json, misfit
from mainspring.storage.codec.types import is_pydantic, mentions_pydantic, model_reader, model_values, strict_reader

# Every byte that cannot begin an array or a map: what is left of a payload bounds how deep it is.
_OPENING = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])
_ANYTHING_ELSE = bytes(set(range(256)) - set(_OPENING))


class MsgpackCodec:
    """MessagePack, for ``Mainspring(codecs=[MsgpackCodec()])``. It takes every type that JSON takes."""

    content_type = "application/msgpack"

    def encode(self, value: Any) -> bytes:
        """The MessagePack of a value. Raises Unencodable, naming the type and the path."""
        try:
            payload = _ENCODER.encode(model_values(value) if is_pydantic(type(value)) else value)
        except RecursionError:
            raise too_deep() from None
        except UNFIT as error:
            raise unencodable(value, error, _ENCODER.encode, "MessagePack") from error
        if len(payload) > DEPTH and len(payload.translate(None, _ANYTHING_ELSE)) > DEPTH and _is_deep(payload):
            raise too_deep()
        return payload

    def decoder(self, annotation: Any) -> Read:
        """What reads MessagePack as this type, and raises Unreadable; raises BadSignature when none ever could be.

        Unknown fields are ignored, values are never coerced (a pydantic model decides for itself).
        """
        read = _reader(annotation)

        def decode(payload: bytes) -> Any:
            try:
                return read(payload)
            except MALFORMED as error:
                raise misfit(error, annotation, "MessagePack") from error

        return decode


def _reader(annotation: Any) -> Read:
    if annotation is Any or annotation is object:
        return _ANYTHING.decode
    if mentions_pydantic(annotation):
        validate = model_reader(annotation)
        # A model that is strict takes text for an instant from JSON, and from nothing else.
        return lambda payload: validate(encode_json(_ANYTHING.decode(payload)))
    return strict_reader(msgspec.msgpack.Decoder, annotation)


def _inside(value: Any) -> Any:
    if is_pydantic(type(value)):
        return model_values(value)
    raise TypeError(type(value))


def _is_deep(payload: bytes) -> bool:
    try:
        level = [_ANYTHING.decode(payload)]
    except RecursionError:
        return True
    for _ in range(DEPTH + 1):
        level = [each for each in level if isinstance(each, list | dict)]
        if not level:
            return False
        level = [child for each in level for child in (each.values() if isinstance(each, dict) else each)]
    return True


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_inside)
_ANYTHING = msgspec.msgpack.Decoder()
