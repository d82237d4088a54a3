import sys
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.model.errors import BadOption


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package on disk with a module, a package below it, and a script."""
    name = f"found_{tmp_path.name.replace('-', '_')}"
    root = tmp_path / name
    (root / "deep").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "orders.py").write_text("loaded = True\n")
    (root / "__main__.py").write_text("raise SystemExit('a script ran')\n")
    (root / "deep" / "__init__.py").write_text("")
    (root / "deep" / "billing.py").write_text("loaded = True\n")
    (root / "broken.py").write_text("import a_module_that_is_nowhere\n")
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_a_package_is_included_all_the_way_down(package: str, tmp_path: Path) -> None:
    (tmp_path / package / "broken.py").unlink()

    names = Mainspring("memory://").include(package)

    assert names == [package, f"{package}.deep", f"{package}.deep.billing", f"{package}.orders"]
    assert sys.modules[f"{package}.deep.billing"].loaded


def test_a_single_module_is_included_by_name_or_as_itself(package: str) -> None:
    app = Mainspring("memory://")

    assert app.include(f"{package}.orders") == [f"{package}.orders"]
    assert app.include(sys.modules[f"{package}.orders"]) == [f"{package}.orders"]


@pytest.mark.parametrize("name", ["no_such_package", "no_such_package.orders"])
def test_a_module_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(BadOption) as refused:
        Mainspring("memory://").include(name)

    assert str(refused.value) == (
        f"include({name!r}): there is no module 'no_such_package'; write its dotted name as in an import, and start "
        "where it can be imported from"
    )


def test_what_a_module_misses_itself_is_its_own_error(package: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_nowhere"):
        Mainspring("memory://").include(f"{package}.broken")
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_nowhere"):
        Mainspring("memory://").include(package)


@pytest.mark.parametrize("name", ["", ".orders"])
def test_a_relative_name_is_refused(name: str) -> None:
    with pytest.raises(BadOption, match=r"write the full dotted name, as in 'shop\.consumers'"):
        Mainspring("memory://").include(name)


def test_something_that_is_no_module_is_refused() -> None:
    with pytest.raises(BadOption) as refused:
        Mainspring("memory://").include(5)  # type: ignore[arg-type]

    assert str(refused.value) == "include(5): pass a module, or its dotted name as in 'shop.consumers'"
