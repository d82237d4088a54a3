"""What the library offers is typed, listed and explained."""

import inspect

import mainspring


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
