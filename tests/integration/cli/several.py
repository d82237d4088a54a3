"""Runs several commands in one process, since starting one costs more than most commands do.

    python several.py CASES.json ANSWERS.json

Each case is a list of arguments; each answer is its exit code, stdout and stderr.
"""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from mainspring.cli.commands import run

answers = []
for arguments in json.loads(Path(sys.argv[1]).read_text()):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    answers.append((code, out.getvalue(), err.getvalue()))
Path(sys.argv[2]).write_text(json.dumps(answers))
