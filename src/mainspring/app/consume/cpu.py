"""``cpu=True``: from a registered function to the program that its processes run."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from mainspring.model.errors import BadSignature, Misuse
from mainspring.runtime.handler import Program

ENTRY = "mainspring.app.process.entry"
_WHY = "a process of a cpu=True consumer imports its module and looks for it there"


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def check_program(function: Any, name: str, *, is_async: bool) -> None:
    """Raise BadSignature if it cannot run in a process of its own. The module may not be complete yet."""
    if is_async:
        raise BadSignature(
            f"{name} is `async def` and has cpu=True: a process runs plain functions. Write `def`, or remove cpu=True"
        )
    inner: Any = inspect.unwrap(function)
    if not (inspect.isroutine(inner) or inspect.isclass(inner)) or inspect.ismethod(inner):
        raise BadSignature(
            f"{name} has cpu=True and is no function of its own but {function!r}: {_WHY}. Write a function at module "
            "level that calls it"
        )
    if inner.__name__ == "<lambda>":
        raise BadSignature(
            f"{name} has cpu=True and is a lambda, which has no name that a spawned process could import: write a "
            "`def` at module level"
        )
    if "<" in inner.__qualname__:
        raise BadSignature(
            f"{name} has cpu=True and is inside a function: {_WHY}. Define it at module level, with `def`"
        )
    if _source(inner.__module__) is None:
        raise BadSignature(
            f"{name} has cpu=True and is in {inner.__module__!r}, which no other process can import, as in a "
            f"notebook or under `python -c`: {_WHY}. Put it into a file of its own and import that"
        )


def check_place(function: Any, name: str, missed: Sequence[str]) -> None:
    """Raise BadSignature for one that needs these of its app, and is registered outside its module."""
    module = inspect.unwrap(function).__module__
    if missed and not _is_being_imported(module):
        raise BadSignature(
            f"{name} has cpu=True, needs {' and '.join(missed)}, and is registered away from its module: a process of "
            f"a cpu=True consumer imports {module} and nothing else, and would know nothing of them. Put "
            "@app.consumer(…) right above the function, or above one of your own that calls it"
        )


def program(function: Callable[..., Any], name: str, group: str) -> Program:
    """Return the program of this consumer's processes; raise Misuse if it cannot be found."""
    inner: Any = inspect.unwrap(function)
    module, qualname = inner.__module__, inner.__qualname__
    try:
        found = locate(sys.modules[module], qualname)
    except (KeyError, AttributeError):
        found = None
    source = _source(module)
    if source is None or found is None or inspect.unwrap(found) is not inner:
        raise Misuse(
            f"{name} has cpu=True, and {qualname!r} in module {module} is something else now: {_WHY}. Give it a name "
            "of its own"
        )
    return Program(ENTRY, group, module, qualname, source[0], is_script=source[1])


def locate(module: ModuleType, qualname: str) -> Any:
    """Return the object of this qualified name, or raise AttributeError."""
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


def _is_being_imported(module: str) -> bool:
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - there is no other way to see callers
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == module:
            return True
        frame = frame.f_back
    return False


def _source(module: str) -> tuple[str, bool] | None:
    """Return how another process loads the module: by name, or by file and True; None if it cannot."""
    loaded = sys.modules.get(module)
    spec = getattr(loaded, "__spec__", None)
    if module != "__main__":
        return None if spec is None else (module, False)
    if spec is not None and spec.name != "__main__":  # python -m shop
        return spec.name, False
    file = getattr(loaded, "__file__", None)
    return (str(Path(file).resolve()), True) if file is not None and Path(file).is_file() else None
