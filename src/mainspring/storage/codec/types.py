"""Types of payloads: how they are read strictly, pydantic models included, and errors about what does not fit."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final, cast, get_args

import msgspec
from msgspec import inspect as shapes

from mainspring.model.errors import BadSignature, Unencodable
from mainspring.storage.codec.contract import Read

DEPTH: Final = 64
"""How deeply a payload may nest: readers recurse, so the publisher checks."""
UNFIT = (TypeError, ValueError, RecursionError, OverflowError)
"""What an encoder raises for a value that it cannot write."""
_BY_NAME: Final = (2, 11)
"""The version of pydantic from which on fields are read by name and by alias on request."""
_AT: Final = " - at `"
_PAYLOADS: Final = "a dataclass, msgspec.Struct, pydantic model, TypedDict, dict, list or scalar"


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
    kind: Any = type(value)
    if _is_overridden(kind, "model_dump_json"):
        text: str = value.model_dump_json()
        return text.encode()
    payload: bytes = kind.__pydantic_serializer__.to_json(value, **_writing(kind))
    return payload


def model_values(value: Any) -> Any:
    """A model as the dicts, lists and scalars that its JSON stands for."""
    kind: Any = type(value)
    return kind.__pydantic_serializer__.to_python(value, mode="json", **_writing(kind))


def model_reader(annotation: Any) -> Read:
    """What reads JSON as an annotation that mentions a model."""
    by = _reading(annotation)
    read: Read
    if hasattr(annotation, "model_validate_json"):
        read = annotation.model_validate_json
        return partial(read, **by) if by and not _is_overridden(annotation, "model_validate_json") else read
    # It is loaded: the annotation was made with it.
    read = sys.modules["pydantic"].TypeAdapter(annotation).validate_json
    return partial(read, **by) if by else read


def writes_aliases(annotation: Any) -> bool:
    """Return whether the models in an annotation are written by the aliases of their fields, not by their names."""
    models = tuple(_models(annotation))
    return _is_ambiguous(models) or any(_configured(each).get("serialize_by_alias") for each in models)


def into_model(kind: Any, value: Any) -> Any:
    """Read plain values as a model that stands inside of something else."""
    if is_pydantic(kind):
        return kind.__pydantic_validator__.validate_python(value, **_reading_of(kind))
    raise NotImplementedError  # tells msgspec to report itself what does not fit


@lru_cache(maxsize=1024)
def _writing(kind: Any) -> Mapping[str, bool]:
    """How a model is written so that it can be read again: as it would by default, wherever that can be."""
    models = tuple(_models(kind))
    computed = [each for each in models if each.__pydantic_decorators__.computed_fields]
    # Others than its own consumers may read the computed fields; a model that forbids unknown ones cannot.
    kept = computed and not any(_configured(each).get("extra") == "forbid" for each in computed)
    return ({} if kept else {"round_trip": True}) | ({"by_alias": True} if _is_ambiguous(models) else {})


def _reading(annotation: Any) -> Mapping[str, bool]:
    """How an annotation with models is read: by the names of fields, as they are written, and by their aliases."""
    models = tuple(_models(annotation))
    if not any(map(_aliases, models)) or _is_ambiguous(models) or _pydantic_version() < _BY_NAME:
        return {}
    return {"by_alias": True, "by_name": True}


_reading_of = lru_cache(maxsize=1024)(_reading)  # of classes: an annotation need not be hashable


def _models(annotation: Any, seen: set[Any] | None = None) -> Iterator[Any]:
    """Yield the models in an annotation, and those in their fields."""
    seen = set() if seen is None else seen
    if isinstance(annotation, type) and is_pydantic(annotation) and annotation not in seen:
        seen.add(annotation)
        yield annotation
        for each in _fields(annotation).values():
            yield from _models(each.annotation, seen)
    for each in get_args(annotation):
        yield from _models(each, seen)


def _fields(kind: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = getattr(kind, "__pydantic_fields__", {})
    return found


def _aliases(kind: Any) -> dict[str, set[str]]:
    """The names that a model reads its fields by, of each that has others than its own."""
    return {name: found for name, each in _fields(kind).items() if (found := set(_heads(each.validation_alias)))}


def _heads(alias: Any) -> Iterator[str]:
    if isinstance(alias, str):
        yield alias
    elif alias is not None:  # AliasChoices, or an AliasPath, whose first step is a name
        for each in getattr(alias, "choices", None) or alias.path[:1]:
            yield from _heads(each)


def _is_ambiguous(models: Iterable[Any]) -> bool:
    """Whether an alias is the name of another field: what is written by name would be read as that."""
    return any(
        alias != name and alias in _fields(each)
        for each in models
        for name, found in _aliases(each).items()
        for alias in found
    )


def _configured(kind: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = getattr(kind, "model_config", None) or getattr(kind, "__pydantic_config__", None) or {}
    return found


@lru_cache(maxsize=1024)
def _is_overridden(kind: Any, method: str) -> bool:
    """Whether the class of a model has a method of its own for this: then that decides."""
    own = getattr(kind, method, None)
    usual = getattr(sys.modules["pydantic"].BaseModel, method)
    return own is not None and getattr(own, "__func__", own) is not getattr(usual, "__func__", usual)


def _pydantic_version() -> tuple[int, ...]:
    return tuple(int(each) for each in sys.modules["pydantic"].VERSION.split(".")[:2])


def has_floats(kind: Any) -> bool:
    """Whether a value of this type may hold a NaN, which JSON has not: it is written as null."""
    if is_pydantic(kind):
        return True
    try:
        return any(isinstance(each, shapes.FloatType) for each in _shapes(shapes.type_info(kind)))
    except (TypeError, NameError):  # only a codec of the user's own can write it
        return False


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
        raise BadSignature(f"{spelled(annotation)} cannot be a payload{where}: use {_PAYLOADS}")
    return read


def _custom(shape: object) -> Iterator[type]:
    found = (each.cls for each in _shapes(shape) if isinstance(each, shapes.CustomType))
    return (each for each in found if each is not object)


def _shapes(shape: object, seen: set[int] | None = None) -> Iterator[object]:
    """Yield a shape and those within it."""
    seen = set() if seen is None else seen
    if id(shape) in seen:
        return
    seen.add(id(shape))
    if isinstance(shape, shapes.Type | shapes.Field):
        yield shape
        for name in shape.__struct_fields__:
            yield from _shapes(getattr(shape, name), seen)
    elif isinstance(shape, tuple):
        for each in shape:
            yield from _shapes(each, seen)


def too_deep() -> Unencodable:
    """Reject a payload that nests too deeply."""
    return Unencodable(f"the payload nests deeper than {DEPTH} levels: send a flatter one, or a reference to it")


def unencodable(value: object, error: Exception, encode: Callable[[object], bytes], form: str) -> Unencodable:
    """Reject what ``encode`` cannot write; the error names the part and its path."""
    path, culprit = _blame(value, "$", 0, encode)
    kind = type(culprit).__qualname__
    where = "" if path == "$" else f" at `{path}`"
    reason = f"it has no {form} form" if isinstance(error, TypeError) else str(error)
    if isinstance(culprit, Mapping):
        key = next((key for key in culprit if not _is_key(key, encode)), None)
        reason = f"its key {key!r} is not text or a number"
    return Unencodable(f"a payload cannot hold {kind}{where}: {reason}; use {_PAYLOADS}")


def _is_key(key: object, encode: Callable[[object], bytes]) -> bool:
    try:
        return bool(encode({key: None}))
    except UNFIT:
        return False


def summary(error: Exception) -> str:
    """Describe the error on one line, with its path: pydantic's own message has many lines and a link."""
    errors = getattr(error, "errors", None)
    if errors is None or not type(error).__module__.startswith("pydantic"):
        return str(error)
    return "; ".join(
        f"{each['msg']} - at `{''.join(_steps(each['loc']))}`"
        for each in errors(include_url=False, include_input=False, include_context=False)
    )


def misfits(error: BaseException | None) -> str | None:
    """Describe what does not fit, each with its path first, as in ``$.total: expected float, got str``.

    None for an error that is not about a type.
    """
    while error is not None and not isinstance(error, msgspec.ValidationError):
        if hasattr(error, "errors") and type(error).__module__.startswith("pydantic"):
            break
        error = error.__cause__
    if error is None:
        return None
    found = (each.rpartition(_AT) for each in summary(cast("Exception", error)).split("; "))
    return "; ".join(_placed(what if at else path, path if at else "$") for what, at, path in found)


def _placed(what: str, path: str) -> str:
    return f"{path.rstrip('`')}: {what[:1].lower()}{what[1:]}".replace("`", "")


def _steps(path: tuple[int | str, ...]) -> Iterator[str]:
    yield "$"
    for step in path:
        yield f"[{step}]" if isinstance(step, int) else f".{step}"


def located(error: Exception) -> str:
    """An error of the user's own codec or upcaster on one line: its type, its words, and where it was raised.

    The first frame is the call from here, so that what was raised with no other was raised by no code of theirs.
    """
    words = summary(error)
    words = f"{type(error).__qualname__}: {words}" if words else type(error).__qualname__
    if error.__traceback__ is None or (trace := error.__traceback__.tb_next) is None:
        return words
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{words} ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"


def _blame(value: object, path: str, depth: int, encode: Callable[[object], bytes]) -> tuple[str, object]:
    if depth > DEPTH:
        return path, value
    for step, child in _children(value):
        try:
            encode(child)
        except UNFIT:
            return _blame(child, path + step, depth + 1, encode)
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
