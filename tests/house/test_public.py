"""What the library offers is typed, listed and explained."""

import inspect
import tomllib

import mainspring
from mainspring.cli.commands import HELP
from tests.house.tree import ROOT


def _is_explained(thing: object) -> bool:
    if not inspect.isclass(thing) and not inspect.isroutine(thing):
        return True  # a constant or an alias is explained where it is defined
    written = inspect.cleandoc(thing.__doc__ or "")
    made_by_dataclass = inspect.isclass(thing) and written.startswith(f"{thing.__name__}(")
    return bool(written) and not made_by_dataclass


def test_every_public_name_has_a_docstring() -> None:
    assert [name for name in mainspring.__all__ if not _is_explained(getattr(mainspring, name))] == []


def test_public_names_are_listed_once() -> None:
    assert len(mainspring.__all__) == len(set(mainspring.__all__))


def test_the_package_the_module_and_the_command_describe_themselves_alike() -> None:
    described = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["description"]

    assert inspect.cleandoc(mainspring.__doc__ or "").splitlines()[0] == described
    assert described == HELP
