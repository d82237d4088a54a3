"""A newcomer with a fresh virtual environment and the README: every command as it stands."""

import os
import shlex
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from tests.house.pages import blocks
from tests.house.tree import ROOT

README = ROOT / "README.md"
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an index would serve: the wheel of this checkout, what it needs, and what builds it."""
    folder = tmp_path_factory.mktemp("shelf")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    _run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT], PATH=path)
    [wheel] = folder.glob("mainspring-*.whl")
    builds = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    _run([*pip, "download", "--dest", folder, f"{wheel}[cli]", *builds])
    return folder


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory, shelf: Path) -> dict[str, str]:
    """The shell of somebody who has just made an environment and activated it."""
    home = tmp_path_factory.mktemp("newcomer") / "venv"
    venv.create(home, with_pip=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAINSPRING_", "PYTHON", "COV"))}
    return {
        **kept,
        "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": str(home),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(shelf),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_COMPILE": "1",  # Python compiles what is imported, which is a part
    }


def _run(command: list[object], **settings: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **settings},
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def _installing() -> str:
    """The README's own line: the first, for a checkout."""
    [line, *_] = [
        line
        for block in blocks(README)
        if block.language == "sh"
        for line in block.code.splitlines()
        if line.startswith("pip install")
    ]
    return line


def test_the_first_message_is_handled_with_nothing_but_the_readme(newcomer: dict[str, str], tmp_path: Path) -> None:
    install = subprocess.run(
        _installing(), shell=True, cwd=ROOT, env=newcomer, check=False, capture_output=True, text=True
    )
    assert install.returncode == 0, install.stdout + install.stderr

    # The blocks in their order: files are saved, commands typed, the worker stopped when it has said what is shown.
    page = subprocess.run(
        ["python", "-m", "tests.house.run_page", README],
        cwd=tmp_path,
        env={**newcomer, "PYTHONPATH": str(ROOT)},
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )

    assert page.returncode == 0, page.stdout + page.stderr
    assert "receipt for order 7, attempt 1" in page.stdout
    assert "counted 7" in page.stdout
    where = subprocess.run(
        ["python", "-c", "import mainspring; print(mainspring.__file__)"],
        cwd=tmp_path,
        env=newcomer,
        check=True,
        capture_output=True,
        text=True,
    )
    assert where.stdout.startswith(newcomer["VIRTUAL_ENV"])  # not this checkout


def test_without_the_command_line_extra_the_command_says_what_to_install(
    newcomer: dict[str, str], tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    venv.create(bare)
    shell = {**newcomer, "PATH": f"{bare / 'bin'}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(bare)}
    install = f"pip --python {bare / 'bin' / 'python'} install --quiet mainspring"
    subprocess.run(shlex.split(install), cwd=tmp_path, env=newcomer, check=True)

    said = subprocess.run(
        ["mainspring", "worker"], cwd=tmp_path, env=shell, check=False, capture_output=True, text=True
    )

    assert said.returncode != 0
    assert said.stderr.strip().splitlines()[-1].endswith("pip install 'mainspring[cli]'")
    assert len(said.stderr.strip().splitlines()) == 1
