"""Which database an app is on: the argument's, the environment's or the file's; and no secret is ever shown."""

import os
from pathlib import Path

import pytest

from mainspring import Mainspring
from mainspring.app.environment import configure, read_environment
from mainspring.model.errors import BadOption

SECRET = "postgresql://shop:s3cret@host/shop"


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _target(url: str | None = None, name: str | None = None, **environ: str) -> tuple[str, str]:
    options, address = configure(url, {"name": name}, read_environment(environ, Path.cwd()))
    return address.target, options.sources["url"]


def test_an_explicit_url_wins_over_the_environment_and_that_over_the_file() -> None:
    Path("mainspring.toml").write_text('url = "sqlite:///file.db"\n[apps.shop]\nurl = "sqlite:///shop.db"\n')
    variable = {"MAINSPRING_URL": "sqlite:///variable.db"}

    assert _target() == ("file.db", "mainspring.toml:1")
    assert _target(name="shop") == ("shop.db", "mainspring.toml:3")
    assert _target(name="shop", **variable) == ("variable.db", "MAINSPRING_URL")
    assert _target("sqlite:///argument.db", **variable) == ("argument.db", "argument")


def test_a_relative_path_in_a_file_is_relative_to_the_file(tmp_path: Path) -> None:
    Path("mainspring.toml").write_text('url = "sqlite:///data/shop.db"\n[apps.a]\nurl = "sqlite:////var/shop.db"\n')
    Path(".git").mkdir()
    Path("inner").mkdir()
    os.chdir("inner")

    assert _target()[0] == f"{tmp_path}/data/shop.db"
    assert _target(name="a")[0] == "/var/shop.db"
    assert _target(MAINSPRING_URL="sqlite:///shop.db")[0] == "shop.db"


def test_without_a_database_the_error_names_every_place_for_one() -> None:
    with pytest.raises(BadOption) as refused:
        Mainspring()

    assert str(refused.value) == (
        "no database is named: write Mainspring('sqlite:///shop.db'), set MAINSPRING_URL, or put a line "
        'url = "sqlite:///shop.db" into mainspring.toml (or below [tool.mainspring] of pyproject.toml)'
    )


def test_an_app_takes_everything_from_its_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mainspring.toml").write_text('keep = "none"\n[apps.shop]\npool_size = 9\n')
    monkeypatch.setenv("MAINSPRING_URL", "memory://")
    monkeypatch.setenv("MAINSPRING_NAME", "shop")

    app = Mainspring(namespace="staging")

    assert repr(app) == "<Mainspring 'shop' on memory://>"
    assert (app.options.keep, app.options.pool_size, app.options.namespace) == ("none", 9, "staging")
    used = {name: source for name, source in app.options.sources.items() if source != "default"}
    assert used == {
        "url": "MAINSPRING_URL",
        "name": "MAINSPRING_NAME",
        "namespace": "argument",
        "keep": "mainspring.toml:1",
        "pool_size": "mainspring.toml:3",
    }


def test_what_is_wrong_around_an_app_stops_it_even_where_an_argument_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_GRACE", "soon")

    with pytest.raises(BadOption, match="environment: MAINSPRING_GRACE='soon' is not a duration"):
        Mainspring("memory://", grace="3s")


def test_a_url_that_cannot_be_read_is_told_by_its_place() -> None:
    Path("mainspring.toml").write_text('\nurl = "oracle://shop:s3cret@host/shop"\n')

    with pytest.raises(BadOption) as from_file:
        _target()
    with pytest.raises(BadOption) as from_variable:
        _target(MAINSPRING_URL="s3cret")

    assert str(from_file.value).startswith("mainspring.toml:2: 'oracle' is not a database Mainspring knows.")
    assert str(from_variable.value).startswith("MAINSPRING_URL: the database URL has no scheme: write one of ")
    assert "s3cret" not in str(from_file.value) + str(from_variable.value)


def test_no_password_is_in_any_repr() -> None:
    around = read_environment({"MAINSPRING_URL": SECRET}, Path.cwd())

    options, address = configure(None, {}, around)

    assert address.target == SECRET
    assert "s3cret" not in repr((around, options, address))


def test_sources_are_no_part_of_what_options_are() -> None:
    Path("mainspring.toml").write_text('grace = "25s"\n')

    written, _ = configure("memory://", {}, read_environment({}, Path.cwd()))
    default, _ = configure("memory://", {}, read_environment({"MAINSPRING_CONFIG": os.devnull}, Path.cwd()))

    assert written == default
    assert hash(written) == hash(default)
    assert (written.sources["grace"], default.sources["grace"]) == ("mainspring.toml:1", "default")
