"""Picking messages out by topic, type and the fields of their payloads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from mainspring.app.catalogue import Catalogue
from mainspring.app.options import closest
from mainspring.app.testing.values import Ran, Sent
from mainspring.model.errors import BadOption
from mainspring.storage.routing import matches

S = TypeVar("S", Sent, Ran)


def of_topic(sent: Iterable[Sent], which: Any, catalogue: Catalogue) -> list[Sent]:
    """What was published on this topic or pattern, or on the topic of this type; None: everything."""
    if which is None:
        return list(sent)
    pattern = which if isinstance(which, str) else catalogue.topic_of(which)
    if pattern is None:
        raise BadOption(f"published({which!r}): name a topic or a pattern, or a type with @app.message(topic)")
    return [each for each in sent if matches(pattern, each.topic)]


def with_fields(found: Iterable[S], fields: Mapping[str, Any], kind: Any = None) -> list[S]:
    """Those whose payload has these values. A field that the payload's type does not have is a mistake."""
    if not fields:
        return list(found)
    if kind is not None:
        _check(kind, fields)
    return [each for each in found if all(_field(each.payload, name) == value for name, value in fields.items())]


def _field(payload: Any, name: str) -> Any:
    if isinstance(payload, Mapping):
        return payload.get(name, dataclasses.MISSING)
    _check(type(payload), [name])
    return getattr(payload, name, dataclasses.MISSING)


def _check(kind: Any, names: Iterable[str]) -> None:
    known = _fields(kind)
    for name in names:
        if known is not None and name not in known:
            raise BadOption(
                f"{getattr(kind, '__qualname__', kind)} has no field {name!r}.{closest(name, known)} "
                f"There are: {', '.join(known)}"
            )


def _fields(kind: Any) -> list[str] | None:
    """The names of a payload type's fields; None where any name may be one."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    for mark in ("__struct_fields__", "__pydantic_fields__", "__annotations__"):
        if known := getattr(kind, mark, None):
            return list(known)
    return None
