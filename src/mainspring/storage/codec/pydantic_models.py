"""Pydantic models, recognised by their own marks: pydantic is never imported unless the user already has."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, get_args

from mainspring.storage.codec.contract import Read


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
    raise NotImplementedError  # msgspec's word for "not mine": it then says itself what does not fit


def said(error: Exception) -> str:
    """What is wrong, on one line and with its path: a model's own words are many lines with a link."""
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
