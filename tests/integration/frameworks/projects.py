"""Small Django projects in folders of their own, used as people use theirs: from the command line.

Settings are for a whole process, so every command is one: forked from one that has imported Django.
"""

import atexit
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from textwrap import dedent
from typing import Any
from urllib.parse import urlsplit

from tests.services.forks import Fork, Forks, Program

_STRICT = {"PYTHONWARNINGS": "error::ResourceWarning"}
_IMPORTED = (
    "django.core.checks",
    "django.core.management.commands.check",
    "django.core.management.commands.migrate",
    "django.core.management.commands.test",
    "django.db.backends.postgresql.base",
    "django.db.backends.sqlite3.base",
    "django.db.migrations.executor",
    "django.db.models",
    "django.test.runner",
    "mainspring.integrations.django.apps",
    "mainspring.integrations.django.databases",
)
_PATIENCE = 100.0
_SETTINGS = """
SECRET_KEY = "for tests"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["mainspring.integrations.django", "orders"]
DATABASES = {databases!r}
{more}
"""
_CONSUMERS = """
from mainspring.integrations.django import app

@app.consumer("orders.placed")
def ship(order: int) -> None:
    print(f"shipped {order}", flush=True)
"""


def sqlite(file: Path | str, **more: Any) -> dict[str, Any]:
    options = {"transaction_mode": "IMMEDIATE"}
    return {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(file), "OPTIONS": options, **more}}


def postgresql(url: str, **more: Any) -> dict[str, Any]:
    parts = urlsplit(url)
    return {
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path[1:],
            "HOST": parts.hostname,
            "PORT": parts.port,
            "USER": parts.username,
            **more,
        }
    }


@dataclass(frozen=True)
class Project:
    """A project with one app, `orders`."""

    folder: Path

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(dedent(text))

    def command(self, *arguments: str) -> tuple[list[str], dict[str, str]]:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "settings",
            "PYTHONPATH": str(self.folder),
            "PYTHONUNBUFFERED": "1",
            **_STRICT,
        }
        return [sys.executable, *arguments], environment

    def start(self, program: Program, *arguments: str, output: int) -> Fork:
        """Start a command of Django's or a script, as from the project's folder."""
        _, environment = self.command()
        with Path(os.devnull).open() as nothing:
            streams = [nothing.fileno(), output, output]
            return _forks().start(
                arguments, program=program, directory=self.folder, environment=environment, streams=streams
            )

    def run(self, program: Program, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run it to its end."""
        with TemporaryFile() as output:
            fork = self.start(program, *arguments, output=output.fileno())
            try:
                code = fork.wait(_PATIENCE)
            finally:
                fork.kill()
            output.seek(0)
            return subprocess.CompletedProcess(arguments, code, output.read().decode())

    def manage(self, *arguments: str) -> str:
        """A command of Django's that must succeed; what it says."""
        ran = self.run("django", *arguments)
        assert ran.returncode == 0, ran.stdout
        return ran.stdout

    def refused(self, *arguments: str) -> str:
        """A command of Django's that must fail; what it says."""
        ran = self.run("django", *arguments)
        assert ran.returncode != 0, ran.stdout
        return ran.stdout

    def script(self, text: str) -> str:
        """A program that sets nothing up itself; what it says."""
        self.write("script.py", text)
        ran = self.run("script", "script.py")
        assert ran.returncode == 0, ran.stdout
        return ran.stdout


@cache
def _forks() -> Forks:
    made = Forks.started({**os.environ, **_STRICT}, *_IMPORTED)
    atexit.register(made.close)
    return made


def new_project(
    folder: Path, databases: dict[str, Any], settings: str = "", consumers: str = _CONSUMERS, **files: str
) -> Project:
    project = Project(folder)
    project.write("settings.py", _SETTINGS.format(databases=databases, more=dedent(settings)))
    project.write("orders/__init__.py", "")
    project.write("orders/consumers.py", consumers)
    for name, text in files.items():
        project.write(f"orders/{name}.py", text)
    return project
