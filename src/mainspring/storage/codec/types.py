"""Types of payloads: how they are read strictly, pydantic models included."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, get_args

from msgspec import inspect as shapes

from mainspring.model.errors import BadSignature
from mainspring.storage.codec.contract import Read

PAYLOADS: Final = "a dataclass, msgspec.Struct, pydantic model, TypedDict, dict, list or scalar"


def _has_its_marks(kind: Any) -> bool:
    return hasattr(kind, "__pydantic_serializer__")


# Asked for every payload, and to look in vain for an attribute costs more than to look up the answer.
is_pydantic: Callable[[Any], bool] = lru_cache(maxsize=1024)(_has_its_marks)


def mentions_pydantic(annotation: Any) -> bool:
    """Whether a model stands anywhere in it."""
    if isinstance(annotation, type) and is_pydantic(annotation):
        return True
    return any(mentions_pydantic(each) for each in get_args(annotation))


def model_json(value: Any) -> bytes:
    """A model as the JSON it writes itself."""
    if hasattr(value, "model_dump_json"):
        text: str = value.model_dump_json()
        return text.encode()
    payload: bytes = type(value).__pydantic_serializer__.to_json(value)
    return payload


def model_values(value: Any) -> Any:
    """A model as the dicts, lists and scalars that its JSON stands for."""
    return type(value).__pydantic_serializer__.to_python(value, mode="json")


def model_reader(annotation: Any) -> Read:
    """What reads JSON as an annotation that mentions a model."""
    if hasattr(annotation, "model_validate_json"):
        read: Read = annotation.model_validate_json
        return read
    # It is loaded: the annotation was made with it.
    adapted: Read = sys.modules["pydantic"].TypeAdapter(annotation).validate_json
    return adapted


def into_model(kind: Any, value: Any) -> Any:
    """Read plain values as a model that stands inside of something else."""
    if is_pydantic(kind):
        return kind.__pydantic_validator__.validate_python(value)
    raise NotImplementedError  # tells msgspec to report itself what does not fit


def said(error: Exception) -> str:
    """Describe the error on one line, with its path: pydantic's own message has many lines and a link."""
    errors = getattr(error, "errors", None)
    if errors is None or not type(error).__module__.startswith("pydantic"):
        return str(error)
    return "; ".join(
        f"{each['msg']} - at `{''.join(_steps(each['loc']))}`"
        for each in errors(include_url=False, include_input=False, include_context=False)
    )


def _steps(path: tuple[int | str, ...]) -> Iterator[str]:
    yield "$"
    for step in path:
        yield f"[{step}]" if isinstance(step, int) else f".{step}"


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
