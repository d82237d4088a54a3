"""The reference pages name every option, public name and error there is, and nothing that is not there."""

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any, is_typeddict

import pytest

import mainspring
from mainspring import (
    AppOptions,
    ConsumerOptions,
    FanoutOptions,
    HealthLimits,
    JoinOptions,
    Options,
    PublishOptions,
    RecurringOptions,
    Retention,
    RouteOptions,
    SendOptions,
    errors,
)
from mainspring.app.config import NAMES
from mainspring.app.environment import read_environment
from tests.house.tree import ROOT

REFERENCE = ROOT / "docs" / "reference"
_HEADING = re.compile(r"^#{2,3} (.*)$", re.MULTILINE)
_ROW = re.compile(r"^\| `(\w+)` \| (.*?) \|", re.MULTILINE)
ROOMS = ("messages", "dead", "groups", "workers", "schedules", "inbox", "leases", "joins", "fanouts", "stats")
_WORLD = {"Retention": Retention, "timedelta": timedelta}


def _sections(page: str) -> dict[str, str]:
    """The text below each heading, without its marks."""
    parts = _HEADING.split((REFERENCE / page).read_text())
    return {title.strip("`"): text for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def _options(section: str) -> dict[str, str]:
    """The names in the first column, and what stands beside them as the default."""
    return {name: default.strip("`") for name, default in _ROW.findall(_sections("options.md")[section])}


def _default(written: str) -> Any:
    return eval(written, dict(_WORLD))


def _coded(text: str) -> set[str]:
    """Every word that is marked as code."""
    return {word for code in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"\w+", code)}


def _members(thing: Any) -> set[str]:
    """What a class adds to what every object, exception or number has."""
    own = {name for each in thing.__mro__ if each.__module__.startswith("mainspring") for name in vars(each)}
    own |= {name for name in vars(thing).get("__annotations__", {}) if not is_typeddict(thing)}
    if thing is mainspring.Mainspring:
        own |= set(vars(thing("memory://")))
    return {name for name in own if not name.startswith("_")}


def _classes() -> list[str]:
    public = {name: getattr(mainspring, name) for name in mainspring.__all__}
    return [name for name, thing in public.items() if inspect.isclass(thing) and not is_typeddict(thing)]


@pytest.mark.parametrize(
    ("section", "known"),
    [
        ("Mainspring(…)", set(AppOptions.__annotations__)),
        ("consumer(…)", set(ConsumerOptions.__annotations__)),
        ("recurring(…)", set(RecurringOptions.__annotations__) - set(ConsumerOptions.__annotations__)),
        ("fanout(…)", set(FanoutOptions.__annotations__)),
        ("route(…)", set(RouteOptions.__annotations__)),
        ("publish(…)", set(PublishOptions.__annotations__)),
        ("send(…)", set(SendOptions.__annotations__) - set(PublishOptions.__annotations__)),
        ("join(…)", set(JoinOptions.__annotations__)),
        ("Retention", {field.name for field in fields(Retention)}),
        ("HealthLimits", {field.name for field in fields(HealthLimits)}),
    ],
)
def test_the_page_lists_the_options_there_are(section: str, known: set[str]) -> None:
    assert set(_options(section)) == known


def test_every_option_of_an_app_has_a_default() -> None:
    assert {field.name for field in fields(Options) if field.compare} == set(AppOptions.__annotations__)


def test_the_defaults_of_an_app_are_those_on_the_page() -> None:
    for name, written in _options("Mainspring(…)").items():
        assert Options.read({name: _default(written)}) == Options(), name


def test_every_variable_and_key_is_on_the_page_with_a_value_that_can_be_read(tmp_path: Path) -> None:
    section = _sections("options.md")["Environment and file"]
    rows = re.findall(r"^\| `(MAINSPRING_\w+)=(.*)` \| `([\w.]+) = (.*)` \|$", section, re.MULTILINE)
    (tmp_path / "mainspring.toml").write_text("".join(f"{key} = {value}\n" for _, _, key, value in rows))

    around = read_environment({variable: text for variable, text, _, _ in rows}, tmp_path)

    assert around.problems == ()
    assert set(around.environment) == set(around.everywhere) == {"app", "url", *NAMES}


@pytest.mark.parametrize("kind", [Retention, HealthLimits])
def test_the_defaults_of_limits_are_those_on_the_page(kind: Any) -> None:
    defaults = {field.name: getattr(kind(), field.name) for field in fields(kind)}
    written = {name: _default(text) for name, text in _options(kind.__name__).items()}

    assert written == defaults


def test_every_public_name_has_a_section_and_no_other_does() -> None:
    written = re.findall(r"^### `(\w+)`$", (REFERENCE / "python.md").read_text(), re.MULTILINE)

    assert sorted(written) == sorted(mainspring.__all__)


@pytest.mark.parametrize("name", _classes())
def test_the_section_of_a_class_names_all_its_members(name: str) -> None:
    named = _coded(_sections("python.md")[name])

    assert _members(getattr(mainspring, name)) - named == set()


@pytest.mark.parametrize("policy", [mainspring.exponential, mainspring.intervals, mainspring.proportional])
def test_the_signature_of_a_policy_is_the_one_on_the_page(policy: Callable[..., Any]) -> None:
    written = re.search(r"`(\w+\(.*?\))`:", _sections("python.md")[policy.__name__], re.DOTALL)
    assert written is not None
    made: dict[str, Any] = {}
    exec(f"def {written[1]}: ...", made)

    assert _bare(made[policy.__name__]) == _bare(policy)


def test_every_error_is_explained_and_no_other_is() -> None:
    written = re.findall(r"^### `(\w+)`$", (REFERENCE / "errors.md").read_text(), re.MULTILINE)
    raised = [name for name, thing in vars(errors).items() if inspect.isclass(thing) and issubclass(thing, Exception)]

    assert sorted(written) == sorted(raised)


def _bare(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


def _steps() -> list[tuple[str, list[str]]]:
    """The files and functions that a message passes, as the page about the inside lists them."""
    rows = re.findall(r"(?m)^\| \d+ \| `([\w/]+\.py)` \| (.+) \|$", (ROOT / "docs" / "internals.md").read_text())
    return [(file, re.findall(r"`([\w.]+)`", functions)) for file, functions in rows]


def _functions(path: Path) -> set[str]:
    defined = (ast.FunctionDef, ast.AsyncFunctionDef)
    body = ast.parse(path.read_text(encoding="utf-8")).body
    own = {node.name for node in body if isinstance(node, defined)}
    classes = (node for node in body if isinstance(node, ast.ClassDef))
    return own | {f"{kind.name}.{each.name}" for kind in classes for each in kind.body if isinstance(each, defined)}


def test_the_way_of_a_message_is_short_and_every_step_is_there() -> None:
    package = ROOT / "src" / "mainspring"
    elsewhere = {"SqliteMailbox.claim", "SqliteMailbox.settle"}  # named in a remark
    steps = _steps()
    missing = [
        (file, name) for file, names in steps for name in names if name not in _functions(package / file) | elsewhere
    ]

    assert missing == []
    assert len(steps) == len({file for file, _ in steps}) <= 22, "no file is visited, left and visited again"
    assert sum(len(set(names) - elsewhere) for _, names in steps) <= 42


@pytest.mark.parametrize("room", ROOMS)
def test_a_sub_api_shows_what_the_page_lists_and_nothing_else(room: str) -> None:
    app = mainspring.Mainspring("memory://")
    section = _sections("python.md")["Mainspring"]
    row = re.search(rf"^\| `{room}` \| (.*) \|$", section, re.MULTILINE)
    table = re.search(rf"^Members of `app\.{room}`.*?\n\n(.*?)\n\n", section, re.MULTILINE | re.DOTALL)
    assert row is not None
    written = set(re.findall(r"`(?:await |async with )?(\w+)\(", row[1] if table is None else table[1]))

    for face in (getattr(app, room), getattr(app.sync, room)):
        assert {name for name in dir(face) if not name.startswith("_")} == written
