"""JSON schemas of payload types, as draft 7: of what msgspec reads, of pydantic's models, and of one in the other."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from mainspring.storage.codec.types import UNFIT, is_pydantic, mentions_pydantic, spelled, writes_aliases

Schema = dict[str, Any]

PLACE: Final = "#/components/schemas/"
"""Where a document has the schemas that others refer to."""
_NAMED: Final = frozenset({"properties", "patternProperties"})
"""Keywords whose keys are names of the user's."""
_VALUES: Final = frozenset({"default", "examples", "enum", "const"})
"""Keywords whose values are the user's."""
_NO_SCHEMA: Final = (*UNFIT, NameError, RuntimeError)
"""What msgspec and pydantic raise for a type that has none."""


class PayloadSchemas:
    """The schemas of some types, and of what is in them, each under a name of its own.

    A model is described as it is read, by the names of fields under which it is written.
    """

    def __init__(self, annotations: Sequence[Any]) -> None:
        self.components: dict[str, Schema] = {}
        """What the schemas refer to, by name."""
        self._found: list[tuple[Any, Schema]] = []
        models: list[Any] = []
        plain: list[Any] = []
        for each in annotations:
            inner = _models_of(each)
            if inner is not None:
                models += inner
                plain += [] if mentions_pydantic(each) else [each]
        for aliased in (False, True):
            self._enter_models([each for each in models if writes_aliases(each) is aliased], aliased=aliased)
        self._enter(plain, *_of_plain(plain, self.of))

    def of(self, annotation: Any) -> Schema:
        """Return the schema of a type; empty if it has none."""
        return next((dict(schema) for each, schema in self._found if each is annotation or each == annotation), {})

    def name(self, wanted: str, schema: Schema) -> Schema:
        """Add a schema of the caller's under this name, or one like it, and return a reference to it."""
        name = free(wanted, self.components)
        self.components[name] = schema
        return {"$ref": PLACE + name}

    def _enter_models(self, models: Sequence[Any], *, aliased: bool) -> None:
        if models:
            self._enter(models, *_of_models(models, aliased=aliased))

    def _enter(self, annotations: Sequence[Any], schemas: Sequence[Schema], components: Mapping[str, Schema]) -> None:
        names: dict[str, str] = {}
        for name in sorted(components):
            names[name] = free(re.sub(r"[^A-Za-z0-9._-]+", "-", name), {*self.components, *names.values()})
        self.components |= {names[name]: _draft7(schema, names) for name, schema in components.items()}
        self._found += zip(annotations, (_draft7(each, names) for each in schemas), strict=True)


def _models_of(annotation: Any) -> list[Any] | None:
    """Return the models that pydantic describes in this type; None if the type has no schema."""
    found: list[Any] = []
    try:
        if mentions_pydantic(annotation):
            _of_models([annotation], aliased=False)
            return [annotation]
        _of_plain([annotation], lambda kind: _noted(kind, found))
        if found:
            _of_models(found, aliased=False)
    except _NO_SCHEMA:
        return None
    return found


def _noted(kind: Any, found: list[Any]) -> Schema:
    found.append(kind)
    return {"title": spelled(kind)}  # an empty one is none


def _of_models(annotations: Sequence[Any], *, aliased: bool) -> tuple[list[Schema], dict[str, Schema]]:
    adapter = sys.modules["pydantic"].TypeAdapter  # it is loaded: the annotations were made with it
    inputs = [(index, "validation", adapter(each)) for index, each in enumerate(annotations)]
    found, definitions = adapter.json_schemas(inputs, by_alias=aliased, ref_template="{model}")
    return [found[index, "validation"] for index in range(len(inputs))], definitions.get("$defs", {})


def _of_plain(annotations: Sequence[Any], model: Callable[[Any], Schema]) -> tuple[list[Schema], dict[str, Schema]]:
    def inside(kind: Any) -> Schema:
        if is_pydantic(kind):
            return model(kind)
        raise NotImplementedError  # tells msgspec to report the type itself

    schemas, components = msgspec.json.schema_components(annotations, schema_hook=inside, ref_template="{name}")
    return list(schemas), components


def _draft7(schema: Any, names: Mapping[str, str]) -> Any:
    """Return a schema as draft 7, its references by these names; those to a place are as they must be."""
    if isinstance(schema, list):
        return [_draft7(each, names) for each in schema]
    if not isinstance(schema, dict):
        return schema
    tuples = {"prefixItems": "items", "items": "additionalItems"} if "prefixItems" in schema else {}
    return {
        tuples.get(keyword, keyword): _value(keyword, value, names)
        for keyword, value in schema.items()
        if keyword != "discriminator"  # it repeats what the constants of its alternatives say, and is no draft 7
    }


def _value(keyword: str, value: Any, names: Mapping[str, str]) -> Any:
    if keyword in _VALUES:
        return value
    if keyword in _NAMED:
        return {name: _draft7(each, names) for name, each in value.items()}
    if keyword == "$ref":
        return value if value.startswith(PLACE) else PLACE + names[value]
    return inspect.cleandoc(value) if keyword == "description" else _draft7(value, names)


def free(wanted: str, taken: Mapping[str, object] | set[str]) -> str:
    """Return this name, or the first with a number behind it that is not taken."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name
