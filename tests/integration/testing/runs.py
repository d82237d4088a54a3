"""Running pytest on a project that stands in a folder of its own, as its user would."""

import atexit
import os
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.services.forks import Forks


@dataclass(frozen=True)
class Report:
    status: int
    output: str
    seconds: dict[str, float]
    """The wall time of every test that passed."""


OURS = entry_points(group="pytest11")["mainspring"].value
PLUGINS = {
    "asyncio": ("pytest_asyncio.plugin", "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function"),
    "anyio": ("anyio.pytest_plugin", "anyio_mode = auto"),
}
"""Those that run coroutines, and the options under which they do so by themselves."""


def run_pytest(folder: Path, plugin: str, options: str = "mainspring_app = bakery:app") -> Report:
    """Run the tests in this folder, with our plugin, by the name that pytest finds it under, and this one."""
    module, mode = PLUGINS[plugin]
    (folder / "pytest.ini").write_text(f"[pytest]\nfilterwarnings = error\n{mode}\n{options}\n")
    result = folder / "result.xml"
    ran = _forks().run(
        ["-q", f"--junitxml={result}", "-p", "no:cacheprovider", "-p", module],
        program="pytest",
        directory=folder,
        environment={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": OURS},
        patience=100.0,
    )
    cases = ET.parse(result).getroot().iter("testcase") if result.exists() else ()
    seconds = {case.attrib["name"].partition("[")[0]: float(case.attrib["time"]) for case in cases if not list(case)}
    return Report(ran.code, ran.out + ran.err, seconds)


@cache
def _forks() -> Forks:
    """A process that has imported pytest and none of its plugins: what they assert could not be rewritten any more."""
    made = Forks.started(os.environ, "_pytest.junitxml", "pytest")
    atexit.register(made.close)
    return made
