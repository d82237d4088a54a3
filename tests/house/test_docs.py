"""Every block of Python in the documentation runs, and so does every `mainspring` command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.pages import blocks, commands, excuses, pages
from tests.house.tree import ROOT

MOST_EXCUSES = 5


def _has_something_to_run(page: Path) -> bool:
    return any(block.language == "python" or commands(block) for block in blocks(page) if not block.excuse)


def test_there_is_a_readme_and_documentation() -> None:
    assert (ROOT / "README.md").is_file(), "README.md is missing"
    assert list((ROOT / "docs").rglob("*.md")), "docs/ holds no page"


@pytest.mark.parametrize(
    "page", [str(page.relative_to(ROOT)) for page in pages() if _has_something_to_run(page)]
)
def test_a_page_runs_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}

    run = subprocess.run(
        [sys.executable, "-m", "tests.house.run_page", ROOT / page],
        cwd=tmp_path,
        env=environment,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )

    assert run.returncode == 0, run.stdout


def test_few_blocks_are_excused_and_each_says_why() -> None:
    given = [(str(page.relative_to(ROOT)), reason) for page in pages() for reason in excuses(page)]

    assert all(reason for _, reason in given), given
    assert len(given) <= MOST_EXCUSES, given
