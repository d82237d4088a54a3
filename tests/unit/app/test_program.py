"""``cpu=True`` at registration: what a process can find, and what is refused."""

import functools
import importlib
import inspect
import os
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mainspring import Consumer, Context, Mainspring, MsgpackCodec
from mainspring.app.config import Options
from mainspring.app.consume.consumer import Registration
from mainspring.app.consume.consumers import Consumers
from mainspring.app.consume.cpu import program
from mainspring.app.message.catalogue import Catalogue
from mainspring.model.errors import BadOption, BadSignature, Misuse
from mainspring.runtime.handler import Program
from tests.unit.app.stage import Desk

HERE = __name__


def resize(image: dict[str, Any]) -> None: ...


async def fetch(image: dict[str, Any]) -> None: ...


def _noted(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def noted(*args: Any) -> Any:
        return function(*args)

    return noted


@_noted
def decorated(image: dict[str, Any]) -> None: ...


class Tool:
    def __call__(self, image: dict[str, Any]) -> None: ...

    def method(self, image: dict[str, Any]) -> None: ...

    @staticmethod
    def static(image: dict[str, Any]) -> None: ...


class Report(Consumer[dict[str, Any]]):
    def consume(self, ctx: Context) -> None: ...


class AsyncReport(Consumer[dict[str, Any]]):
    async def consume(self, ctx: Context) -> None: ...


def _closure() -> Callable[..., Any]:
    def inner(image: dict[str, Any]) -> None: ...

    return inner


def register(function: Any, **options: Any) -> Registration:
    chosen = {"group": "images", "cpu": True} | options
    return Consumers(Catalogue(), Options()).register(function, ("images",), chosen)


def test_a_plain_function_gets_a_process_per_core() -> None:
    made = register(resize)

    assert (made.cpu, made.threaded) == (True, False)
    assert made.concurrency == len(os.sched_getaffinity(0))
    assert register(resize, concurrency=3).concurrency == 3


@pytest.mark.parametrize("cpu", [False, None])
def test_without_it_a_plain_function_runs_in_threads(cpu: bool | None) -> None:
    made = register(resize, cpu=cpu)

    assert (made.cpu, made.threaded, made.concurrency) == (False, True, 10)
    assert made.handler(Desk()).program is None


@pytest.mark.parametrize(
    ("function", "qualname"),
    [(resize, "resize"), (decorated, "decorated"), (Tool.static, "Tool.static"), (Report, "Report")],
)
def test_the_program_names_the_function_and_its_module(function: Any, qualname: str) -> None:
    made = register(function).handler(Desk())

    assert made.program == Program("mainspring.app.process.entry", "images", HERE, qualname, HERE)
    assert not made.threaded


def test_what_is_stored_says_that_it_runs_in_processes() -> None:
    assert register(resize).declaration("app").options["kind"] == "process"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (fetch, f"{HERE}.fetch is `async def` and has cpu=True: a process runs plain functions. Write `def`"),
        (AsyncReport, "is `async def` and has cpu=True"),
        (_closure(), "is inside a function: a process of a cpu=True consumer imports its module and looks for it"),
        (
            lambda image: None,
            "is a lambda, which has no name that a spawned process could import: write a `def` at module level",
        ),
        (functools.partial(resize), "is no function of its own but functools.partial"),
        (Tool(), "is no function of its own but"),
        (Tool().method, "is no function of its own but <bound method"),
    ],
)
def test_what_a_process_cannot_find_is_refused(function: Any, said: str) -> None:
    with pytest.raises(BadSignature) as refused:
        register(function)

    assert said in str(refused.value)


@dataclass
class Photo:
    name: str


def develop(photo: Photo) -> None: ...


class Developer(Consumer[Photo]):
    def consume(self, ctx: Context) -> None: ...


class Container:
    """A resolver that is never asked."""

    serves_functions = True

    def marks(self, annotation: Any) -> bool:
        return False

    scope = scope_blocking = marks


def asks_the_resolver(photo: Photo, lens: Path) -> None: ...


@pytest.mark.parametrize("function", [develop, Developer])
def test_a_function_that_needs_a_codec_is_refused_away_from_its_module(function: Any) -> None:
    app = Mainspring("memory://", codecs=[MsgpackCodec()])

    with pytest.raises(BadSignature) as refused:
        app.consumer("photos.taken", cpu=True)(function)

    assert str(refused.value) == (
        f"{HERE}.{function.__name__} has cpu=True, needs the app's codec application/msgpack, and is registered away "
        f"from its module: a process of a cpu=True consumer imports {HERE} and nothing else, and would know nothing of "
        "them. Put @app.consumer(…) right above the function, or above one of your own that calls it"
    )
    app.consumer("photos.taken")(function)


def test_a_function_that_needs_versions_or_a_resolver_is_refused_away_from_its_module() -> None:
    app = Mainspring("memory://", resolver=Container())
    app.message("photos.taken", version=2)(Photo)

    with pytest.raises(
        BadSignature, match="needs the versions of Photo and the resolver of the app, and is registered"
    ):
        app.consumer("photos.taken", cpu=True)(asks_the_resolver)


def test_a_function_that_needs_only_json_may_be_registered_from_anywhere() -> None:
    app = Mainspring("memory://")
    app.message("photos.taken")(Photo)

    app.consumer(cpu=True)(develop)

    with_codec = Mainspring("memory://", codecs=[MsgpackCodec()])
    with_codec.consumer("ticks", cpu=True)(takes_nothing)


def takes_nothing() -> None: ...


IN_ITS_MODULE = """
from mainspring import Mainspring, MsgpackCodec

app = Mainspring("memory://", codecs=[MsgpackCodec()])


def cpu(topic):
    return app.consumer(topic, cpu=True)


@cpu("photos.taken")
def develop(photo: dict) -> None: ...


def enlarge(photo: dict) -> None: ...


enlarge = app.consumer("photos.taken", cpu=True)(enlarge)
"""


def test_a_function_is_registered_in_its_module_however_that_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "photo_lab.py").write_text(IN_ITS_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "photo_lab", raising=False)

    lab = importlib.import_module("photo_lab")

    assert {lab.develop.group, lab.enlarge.group} == {"develop", "enlarge"}


def test_cpu_is_true_or_false() -> None:
    with pytest.raises(BadOption, match="cpu=4 must be True or False"):
        register(resize, cpu=4)


def _placed(function: Any, module: str) -> Any:
    placed = types.FunctionType(function.__code__, function.__globals__, "resize")
    placed.__module__ = module
    return placed


@pytest.mark.parametrize("name", ["__main__", "typed_in"])
def test_a_function_of_an_interactive_session_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))

    with pytest.raises(BadSignature, match=f"is in '{name}', which no other process can import"):
        register(_placed(resize, name))


def test_a_function_of_a_script_is_found_in_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = types.ModuleType("__main__")
    script.__file__ = str(tmp_path / "shop.py")
    script.resize = _placed(resize, "__main__")  # type: ignore[attr-defined]
    Path(script.__file__).touch()
    monkeypatch.setitem(sys.modules, "__main__", script)

    made = program(script.resize, "__main__.resize", "images")

    assert (made.module, made.source, made.is_script) == ("__main__", script.__file__, True)


def test_a_function_of_a_module_run_as_a_script_is_imported_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    script = types.ModuleType("__main__")
    script.__spec__ = inspect.getmodule(resize).__spec__  # type: ignore[union-attr]
    script.resize = _placed(resize, "__main__")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "__main__", script)

    made = program(script.resize, "__main__.resize", "images")

    assert (made.module, made.source, made.is_script) == ("__main__", HERE, False)


def test_a_name_that_means_something_else_by_now_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    made = register(resize)
    monkeypatch.setattr(sys.modules[HERE], "resize", decorated)

    with pytest.raises(Misuse, match=r"'resize' in module .* is something else now"):
        made.handler(Desk())
