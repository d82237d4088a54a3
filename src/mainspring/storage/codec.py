"""Payloads: values to bytes when published, bytes to the handler's type when delivered.

What is stored says nothing about code: the type is the handler's own, and nothing is imported, evaluated or unpickled
(invariant 9).
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, get_args

import msgspec
from msgspec import inspect as shapes

from mainspring.model.errors import BadSignature, Unencodable, Unreadable

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
DEPTH: Final = 64
"""How deeply a payload may nest. Readers recurse, and a reader must never be the one to find out."""

Decode = Callable[[bytes, str], Any]
"""Reads (payload, content type); raises Unreadable."""

_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_ANYTHING_ELSE = bytes(set(range(256)) - set(b"[]{}"))
_RAW = (bytes, bytearray, memoryview)
_OURS = (TypeError, ValueError, RecursionError, OverflowError)


def encode(value: object) -> tuple[bytes, str]:
    """Return the payload of ``value`` and its content type. Raises Unencodable, naming the type and the path."""
    if isinstance(value, _RAW):
        return bytes(value), BYTES
    try:
        payload = _pydantic_json(value) if _is_pydantic(type(value)) else _ENCODER.encode(value)
    except RecursionError:
        raise _too_deep() from None
    except _OURS as error:
        raise Unencodable(_complaint(value, error)) from error
    # A level takes two bytes and a bracket, so hardly any payload is looked at twice.
    if len(payload) > 2 * DEPTH and payload.count(b"[") + payload.count(b"{") > DEPTH and _is_deep(payload):
        raise _too_deep()
    return payload, JSON


def decoder(annotation: Any) -> Decode:
    """Build, once, what reads payloads of this annotation.

    Unknown fields are ignored, values are never coerced (a pydantic model decides for itself). Raises
    BadSignature when no payload could ever be read as this type.
    """
    if annotation is bytes:
        return _as_bytes
    if annotation is Any or annotation is object:
        return _as_anything
    if _mentions_pydantic(annotation):
        return _json_only(_pydantic_reader(annotation), annotation)
    try:
        read = msgspec.json.Decoder(annotation, strict=True, dec_hook=_from_pydantic).decode
        unknown = next((each for each in _custom(shapes.type_info(annotation)) if not _is_pydantic(each)), None)
    except (TypeError, NameError) as error:
        raise BadSignature(f"{spelled(annotation)} cannot be a payload: {error}") from error
    if unknown is not None:
        where = "" if unknown is annotation else f" because it holds {spelled(unknown)}"
        raise BadSignature(
            f"{spelled(annotation)} cannot be a payload{where}: use a dataclass, msgspec.Struct, pydantic model, "
            "TypedDict, dict, list or scalar"
        )
    return _json_only(read, annotation)


def spelled(annotation: Any) -> str:
    """The annotation as it is written in code."""
    return annotation.__qualname__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)


def _json_only(read: Callable[[bytes], Any], annotation: Any) -> Decode:
    name = "JSON" if annotation is Any else spelled(annotation)

    def decode(payload: bytes, content_type: str) -> Any:
        # The one comparison nearly every message needs; other spellings of JSON are looked at after it.
        if content_type != JSON and "json" not in content_type:
            raise Unreadable(f"content type {content_type!r} is not JSON, and the handler asks for {name}")
        try:
            return read(payload)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise Unreadable(f"the payload is not {name}: {error}") from error
        except ValueError as error:
            raise Unreadable(f"the payload is not {name}: {_pydantic_complaint(error)}") from error

    return decode


def _as_bytes(payload: bytes, _content_type: str) -> bytes:
    return payload


def _as_anything(payload: bytes, content_type: str) -> Any:
    return _read_json(payload, content_type) if "json" in content_type else payload


# --- pydantic, recognised by its own marks: never imported unless the user already has -----------------------


def _has_its_marks(kind: Any) -> bool:
    return hasattr(kind, "__pydantic_serializer__")


# Asked for every payload, and to look in vain for an attribute costs more than to look up the answer.
_is_pydantic: Callable[[Any], bool] = lru_cache(maxsize=1024)(_has_its_marks)


def _pydantic_json(value: Any) -> bytes:
    if hasattr(value, "model_dump_json"):
        text: str = value.model_dump_json()
        return text.encode()
    payload: bytes = type(value).__pydantic_serializer__.to_json(value)
    return payload


def _inside(value: Any) -> Any:
    if _is_pydantic(type(value)):
        return msgspec.Raw(_pydantic_json(value))
    raise TypeError(type(value))


def _mentions_pydantic(annotation: Any) -> bool:
    if isinstance(annotation, type) and _is_pydantic(annotation):
        return True
    return any(_mentions_pydantic(each) for each in get_args(annotation))


def _pydantic_reader(annotation: Any) -> Callable[[bytes], Any]:
    if hasattr(annotation, "model_validate_json"):
        read: Callable[[bytes], Any] = annotation.model_validate_json
        return read
    # It is loaded: the annotation was made with it.
    adapted: Callable[[bytes], Any] = sys.modules["pydantic"].TypeAdapter(annotation).validate_json
    return adapted


def _from_pydantic(kind: Any, value: Any) -> Any:
    if _is_pydantic(kind):
        return kind.__pydantic_validator__.validate_python(value)
    raise NotImplementedError


def _pydantic_complaint(error: ValueError) -> str:
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    return "; ".join(
        f"{each['msg']} - at `{''.join(_steps(each['loc']))}`"
        for each in errors(include_url=False, include_input=False, include_context=False)
    )


def _steps(path: tuple[int | str, ...]) -> Iterator[str]:
    yield "$"
    for step in path:
        yield f"[{step}]" if isinstance(step, int) else f".{step}"


# --- limits and complaints: off the path that succeeds -------------------------------------------------------


def _is_deep(payload: bytes) -> bool:
    nest = _STRINGS.sub(b"", payload).translate(_BRACKETS, _ANYTHING_ELSE)
    for _ in range(DEPTH):
        # Each pass removes the innermost level everywhere at once, at the speed of C.
        nest = nest.replace(b"[]", b"")
        if not nest:
            return False
    return True


def _too_deep() -> Unencodable:
    return Unencodable(f"the payload nests deeper than {DEPTH} levels: send a flatter one, or a reference to it")


def _custom(shape: object, seen: set[int] | None = None) -> Iterator[type]:
    seen = set() if seen is None else seen
    if id(shape) in seen:
        return
    seen.add(id(shape))
    if isinstance(shape, shapes.CustomType):
        if shape.cls is not object:
            yield shape.cls
    elif isinstance(shape, shapes.Type | shapes.Field):
        for name in shape.__struct_fields__:
            yield from _custom(getattr(shape, name), seen)
    elif isinstance(shape, tuple):
        for each in shape:
            yield from _custom(each, seen)


def _complaint(value: object, error: Exception) -> str:
    path, culprit = _blame(value, "$", 0)
    kind = type(culprit).__qualname__
    where = "" if path == "$" else f" at `{path}`"
    reason = "it has no JSON form" if isinstance(error, TypeError) else str(error)
    if isinstance(culprit, Mapping):
        reason = "its keys are not text or numbers"
    return (
        f"a payload cannot hold {kind}{where}: {reason}; use a dataclass, msgspec.Struct, pydantic model, TypedDict, "
        "dict, list or scalar"
    )


def _blame(value: object, path: str, depth: int) -> tuple[str, object]:
    if depth > DEPTH:
        return path, value
    for step, child in _children(value):
        try:
            _ENCODER.encode(child)
        except _OURS:
            return _blame(child, path + step, depth + 1)
    return path, value


def _children(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        yield from ((f".{key}" if isinstance(key, str) else f"[{key!r}]", each) for key, each in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{index}]", each) for index, each in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from ((f".{field.name}", getattr(value, field.name, None)) for field in dataclasses.fields(value))
    elif isinstance(value, msgspec.Struct):
        yield from ((f".{name}", getattr(value, name)) for name in value.__struct_fields__)


_ENCODER = msgspec.json.Encoder(enc_hook=_inside)
_read_json = _json_only(msgspec.json.Decoder().decode, Any)
