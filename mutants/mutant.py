"""One seeded fault, and the run of the tests that must fail because of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src") / "mainspring"
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-rfE")
# A fault may make a test wait for ever; the whole run of one mutant ends after this long.
SECONDS = 300
TESTS_FAILED = 1


@dataclass(frozen=True, slots=True)
class Mutant:
    """A named change of one place in the package, and the tests that catch it."""

    name: str
    """The fault in words: what the package does wrong with it."""
    file: str
    """The changed file, below ``src/mainspring``; of SQL, with ``#`` and the name of the statement."""
    was: str
    """A piece of that file, which occurs in it once."""
    becomes: str
    """What stands there instead."""
    caught_by: str
    """The tests to run, separated by spaces: the fewest that must notice."""

    def mutated(self) -> str:
        """The text of the file with the fault in it. Raises ValueError if the file has moved on."""
        if not (ROOT / self.path).is_file():
            raise ValueError(f"{self.name!r}: there is no file {self.path}")
        text = (ROOT / self.path).read_text(encoding="utf-8")
        before, place, after = _around(text, self.file.partition("#")[2])
        if (count := place.count(self.was)) != 1:
            raise ValueError(f"{self.name!r}: {self.file} holds this {count} times instead of once: {self.was!r}")
        return before + place.replace(self.was, self.becomes) + after

    @property
    def path(self) -> Path:
        """The changed file, below the root."""
        return PACKAGE / self.file.partition("#")[0]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the tests made of a mutant."""

    detail: str
    """The first test that failed, or why the run says nothing."""
    seconds: float
    caught: bool


def _around(text: str, statement: str) -> tuple[str, str, str]:
    """The text before a named statement, the statement, and the text after it; without a name, all is the place."""
    if not statement:
        return "", text, ""
    start = text.index(f"-- name: {statement}\n")
    following = re.search(r"\n-- (?:name|part): ", text[start:])
    end = len(text) if following is None else start + following.start()
    return text[:start], text[start:end], text[end:]


def try_out(mutant: Mutant) -> Outcome:
    """Run the tests against a copy of the package with the fault in it."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source)  # with its bytecode, which is valid but for the changed file
        (Path(folder) / mutant.path).write_text(mutant.mutated(), encoding="utf-8")
        return run(mutant.caught_by.split(), "-x", source=source)


def run(tests: list[str], *options: str, source: Path | None = None, seconds: float = SECONDS) -> Outcome:
    """Run some tests, on the package below ``source`` or on the one that is installed."""
    # PYTHONPATH comes before what is installed, in this process and in all that the tests start.
    surroundings = os.environ | ({"PYTHONPATH": str(source)} if source else {})
    start = time.monotonic()
    try:
        done = subprocess.run(
            [*PYTEST, *options, *tests],
            cwd=ROOT, env=surroundings, timeout=seconds, text=True, capture_output=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Outcome(f"HUNG, no end within {seconds:.0f} s", time.monotonic() - start, caught=True)
    took = time.monotonic() - start
    failed = re.search(r"^(?:FAILED|ERROR) (tests/\S+)", done.stdout, re.MULTILINE)
    # Any other code than "tests failed" (no tests, a wrong name, a file that cannot be imported) catches nothing.
    if done.returncode == TESTS_FAILED and failed:
        return Outcome(failed[1], took, caught=True)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return Outcome(f"pytest exit code {done.returncode}: {lines[-1] if lines else 'no output'}", took, caught=False)
