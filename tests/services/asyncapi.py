"""The validator of AsyncAPI documents: the parser of the specification's own project; as a script it is installed."""

import json
import os
import subprocess
from collections.abc import Mapping
from typing import Any

from tests.services.npm import NODE, folder_of, install, is_installed

PACKAGE, VERSION = "@asyncapi/parser", "3.6.3"
FOLDER = folder_of("asyncapi")
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


def is_there() -> bool:
    """Whether it is installed, in this version."""
    return is_installed(FOLDER, PACKAGE, VERSION)


def faults(documents: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what is wrong with each document, all read by one process of Node."""
    ended = subprocess.run(
        [NODE, "-e", _SCRIPT],
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
    print(f"services: the validator of AsyncAPI {install(FOLDER, PACKAGE, VERSION)}")
