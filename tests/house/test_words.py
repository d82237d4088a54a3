"""The project speaks of itself, not of where or how it was written."""

import re
import shutil
import subprocess

from tests.house.tree import ROOT
from tests.services.needs import need

# Each pattern is written so that it does not match its own line.
WORDS = [
    r"\bsessio[n]s? #?\d",
    r"\bissu[e] #",
    r"(?<![\w.-])/wor[k]/",
    r"(?<![\w.-])/roo[t]/",
    r"\.\./share[d]",
]


def _tracked() -> list[str]:
    """Files that are in the repository, or would be at the next commit."""
    need(shutil.which("git"), "git", "install git")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_speaks_of_the_workplace() -> None:
    pattern = re.compile("|".join(WORDS), re.IGNORECASE)
    found = [
        f"{name}:{number}: {line.strip()}"
        for name in _tracked()
        for number, line in enumerate((ROOT / name).read_text(errors="replace").splitlines(), start=1)
        if pattern.search(line)
    ]

    assert found == []


def test_the_lock_names_no_host() -> None:
    assert "://" not in (ROOT / "requirements.lock").read_text()
