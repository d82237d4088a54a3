"""Finding consumers: importing a module, or a package with everything in it, so that its decorators run."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType

from mainspring.model.errors import BadOption


def include(target: ModuleType | str) -> list[str]:
    """Import the module, and the modules of a package all the way down. Returns their names."""
    if isinstance(target, str):
        module = _load(target)
    elif isinstance(target, ModuleType):
        module = target
    else:
        raise BadOption(f"include({target!r}): pass a module, or its dotted name as in 'shop.consumers'")
    names = [module.__name__]
    path = getattr(module, "__path__", None)
    if path is not None:
        for found in pkgutil.walk_packages(path, module.__name__ + ".", onerror=_reraise):
            # `__main__` is a script: importing it would run it.
            if found.name.rpartition(".")[2] != "__main__":
                import_module(found.name)
                names.append(found.name)
    return names


def _load(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        # Only the module asked for: what it imports itself and misses is its own story.
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise
        raise BadOption(
            f"include({name!r}): there is no module {error.name!r}; write its dotted name as in an import, and start "
            "where it can be imported from"
        ) from error
    except (TypeError, ValueError) as error:
        if not name or name.startswith("."):
            raise BadOption(f"include({name!r}): write the full dotted name, as in 'shop.consumers'") from error
        raise


def _reraise(_name: str) -> None:
    raise  # noqa: PLE0704 - called while the import's own error is being handled
