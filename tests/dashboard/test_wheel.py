"""The files of the browser's side are in the wheel, and are read out of it."""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from tests.house.tree import ROOT
from tests.services.unmeasured import unmeasured

STATIC = ROOT / "src" / "mainspring" / "dashboard" / "static"
BUILD = "import sys, uv_build; print(uv_build.build_wheel(sys.argv[1]))"
READ = """
import sys
sys.path.insert(0, sys.argv[1])
import mainspring.dashboard.pages as assets
assert assets.__file__.startswith(sys.argv[1]), assets.__file__
sys.stdout.buffer.write(assets.asset("index.html"))
"""


def test_every_file_is_in_the_wheel_and_is_served_from_it(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    built = subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path)],
        cwd=ROOT,
        env={**unmeasured(), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")

    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        packed = {name for name in names if name.startswith("mainspring/dashboard/static/")}
    read = subprocess.run(
        [sys.executable, "-P", "-c", READ, str(wheel)], env=unmeasured(), capture_output=True, check=False, cwd=tmp_path
    )

    written = {f"mainspring/dashboard/static/{path.relative_to(STATIC)}" for path in STATIC.rglob("*.*")}
    assert packed == written
    assert read.returncode == 0, read.stderr
    assert read.stdout == (STATIC / "index.html").read_bytes()
