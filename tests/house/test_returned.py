"""A caller can name what is returned: every type in the return annotation of a public call can be imported."""

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, get_args, get_origin, get_type_hints

import mainspring
from mainspring import Mainspring
from mainspring.runtime.worker import Worker

ROOMS = ("messages", "dead", "groups", "workers", "schedules", "inbox", "leases", "joins", "fanouts", "stats", "health")
PARTS = (*ROOMS, "brokers", "sync")
# What the block of ``app.worker()`` yields: the block runs it, and none of its members is public.
OPAQUE = {Worker}


def _public() -> list[Any]:
    app = Mainspring("memory://")
    rooms = [getattr(face, room) for face in (app, app.sync) for room in ROOMS]
    instances = [app, app.sync, *rooms, app.queue("a", "a"), app.sync.queue("b", "b")]
    exported = [getattr(mainspring, name) for name in mainspring.__all__]
    return list({*map(type, instances), *filter(inspect.isclass, exported)})


def _names(module: str) -> dict[str, Any]:
    """What the annotations of a module may name, also where only type checkers import it."""
    here = vars(sys.modules[module])
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    checked = [node for each in tree.body if isinstance(each, ast.If) for node in each.body]
    imports = [node for node in checked if isinstance(node, ast.ImportFrom) and node.module is not None]
    late = {each.name: vars(import_module(str(node.module)))[each.name] for node in imports for each in node.names}
    return {**here, **late}


def _returned(owner: type) -> Iterator[tuple[str, Any]]:
    for name in dir(owner):
        member = inspect.getattr_static(owner, name)
        if name.startswith("_") or (name in PARTS and isinstance(member, property | cached_property)):
            continue  # a sub-API is an attribute of the app, not a result
        read: Any = member.fget if isinstance(member, property) else member
        function = inspect.unwrap(read)
        if inspect.isfunction(function) and function.__module__.startswith("mainspring"):
            hints = get_type_hints(function, _names(function.__module__))
            yield f"{owner.__name__}.{name}", hints.get("return")
    if is_dataclass(owner):
        hints = get_type_hints(owner, _names(owner.__module__))
        yield from ((f"{owner.__name__}.{each.name}", hints[each.name]) for each in fields(owner))


def _classes(annotation: Any) -> Iterator[type]:
    for each in get_args(annotation):
        yield from _classes(each)
    if inspect.isclass(kind := get_origin(annotation) or annotation):
        yield kind


def test_every_type_that_a_public_call_returns_can_be_imported() -> None:
    importable = {id(getattr(mainspring, name)) for name in mainspring.__all__}

    hidden = {
        (where, each.__qualname__)
        for owner in _public()
        for where, annotation in _returned(owner)
        for each in _classes(annotation)
        if each.__module__.startswith("mainspring") and id(each) not in importable and each not in OPAQUE
    }

    assert sorted(hidden) == []
