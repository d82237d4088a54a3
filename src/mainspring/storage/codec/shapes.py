"""Which types can be payloads at all, and how they are spelled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_args

from msgspec import inspect as shapes

from mainspring.model.errors import BadSignature
from mainspring.storage.codec.blame import PAYLOADS
from mainspring.storage.codec.contract import Read
from mainspring.storage.codec.pydantic_models import into_model, is_pydantic


def spelled(annotation: Any) -> str:
    """The annotation as it is written in code."""
    return annotation.__qualname__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)


def strict_reader(build: Callable[..., Any], annotation: Any) -> Read:
    """What msgspec's decoder of some format, ``build``, reads as this type: nothing coerced, unknown fields ignored.

    Raises BadSignature when no payload could ever be read so.
    """
    try:
        read: Read = build(annotation, strict=True, dec_hook=into_model).decode
        unknown = next((each for each in _custom(shapes.type_info(annotation)) if not is_pydantic(each)), None)
    except (TypeError, NameError) as error:
        raise BadSignature(f"{spelled(annotation)} cannot be a payload: {error}") from error
    if unknown is not None:
        where = "" if unknown is annotation else f" because it holds {spelled(unknown)}"
        raise BadSignature(f"{spelled(annotation)} cannot be a payload{where}: use {PAYLOADS}")
    return read


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
