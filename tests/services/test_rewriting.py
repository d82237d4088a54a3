"""What is made of the asserts ahead of a run is what pytest itself would have made, where it looks for it."""

import subprocess
import sys
from pathlib import Path

from tests.services.rewriting import place, rewrite
from tests.services.unmeasured import unmeasured


def _run(folder: Path) -> str:
    """What pytest says of a folder when it may keep what it makes."""
    kept = {name: value for name, value in unmeasured().items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {name: value for name, value in kept.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir=."],
        cwd=folder,
        env={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
        capture_output=True,
        text=True,
    ).stdout


def test_pytest_takes_it_for_its_own_until_the_source_is_another(tmp_path: Path) -> None:
    (test := tmp_path / "test_it.py").write_text("def test_it():\n    assert [1, 2] == [1, 3]\n")
    rewrite(tmp_path)
    made = place(test).stat().st_ino

    assert "At index 1 diff: 2 != 3" in _run(tmp_path)
    assert place(test).stat().st_ino == made

    test.write_text("def test_it():\n    assert [1, 2] == [1, 4]\n")
    assert "At index 1 diff: 2 != 4" in _run(tmp_path)
    assert place(test).stat().st_ino != made


def test_what_is_there_is_not_made_again_and_what_has_changed_is(tmp_path: Path) -> None:
    test, other = tmp_path / "test_it.py", tmp_path / "conftest.py"
    for file in (test, other):
        file.write_text("assert True\n")
    rewrite(tmp_path)
    before = [place(file).stat().st_ino for file in (test, other)]

    other.write_text("assert 1\n")
    rewrite(tmp_path)

    after = [place(file).stat().st_ino for file in (test, other)]
    assert [new == old for new, old in zip(after, before, strict=True)] == [True, False]
