"""Every block of Python and SQL in the documentation runs, and so does every `mainspring` command."""

import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.house.pages import PLACEHOLDER, anchors, blocks, commands, excuses, links, pages
from tests.house.tree import ROOT
from tests.services.forks import Said, forks
from tests.services.postgres import new_database
from tests.services.unmeasured import unmeasured

MOST_EXCUSES = 5
PATIENCE = 100.0


def _has_something_to_run(page: Path) -> bool:
    return any(block.language in {"python", "sql"} or commands(block) for block in blocks(page) if not block.excuse)


def _names_postgres(page: Path) -> bool:
    return any(PLACEHOLDER in block.code or block.language == "sql" for block in blocks(page) if not block.excuse)


def _environment(**settings: str) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**unmeasured(), "PATH": path, "PYTHONPATH": str(ROOT), **settings}


def _run(page: str, folder: Path, **settings: str) -> Said:
    return forks(measured=False).run(
        [str(ROOT / page)],
        program="page",
        directory=folder,
        environment=_environment(PAGE_FORKS="1", **settings),
        patience=PATIENCE,
    )


RUNNING = [page for page in pages() if _has_something_to_run(page)]
README = ROOT / "README.md"
EMBEDDED = [str(page.relative_to(ROOT)) for page in RUNNING if not _names_postgres(page) and page != README]
ON_POSTGRES = [str(page.relative_to(ROOT)) for page in RUNNING if _names_postgres(page)]


def test_there_is_a_readme_and_documentation() -> None:
    assert README.is_file(), "README.md is missing"
    assert list((ROOT / "docs").rglob("*.md")), "docs/ holds no page"


@pytest.mark.parametrize("page", EMBEDDED)
def test_a_page_runs_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    run = _run(page, tmp_path)

    assert run.code == 0, run.out + run.err


def test_the_readme_runs_from_top_to_bottom_and_a_second_time_in_the_same_folder(tmp_path: Path) -> None:
    typed = subprocess.run(
        [sys.executable, "-m", "tests.house.run_page", README],
        cwd=tmp_path,
        env=_environment(),
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert typed.returncode == 0, typed.stdout

    again = _run("README.md", tmp_path)

    assert again.code == 0, again.out + again.err


@pytest.mark.parametrize("page", ON_POSTGRES)
def test_a_page_that_names_postgresql_runs_on_a_real_server(page: str, tmp_path: Path, postgres_url: str) -> None:
    with new_database(postgres_url, f"page_{uuid4().hex[:12]}") as url:
        run = _run(page, tmp_path, PAGE_POSTGRES=url)

    assert run.code == 0, run.out + run.err


def test_every_link_within_the_repository_leads_to_a_file_and_a_heading() -> None:
    broken = []
    for page in pages():
        for link in links(page):
            name, _, anchor = link.partition("#")
            target = page.parent / name if name else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")

    assert broken == []


def test_few_blocks_are_excused_and_each_says_why() -> None:
    given = [(str(page.relative_to(ROOT)), reason) for page in pages() for reason in excuses(page)]

    assert all(reason for _, reason in given), given
    assert len(given) <= MOST_EXCUSES, given
