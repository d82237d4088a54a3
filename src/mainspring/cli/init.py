"""``mainspring init``: the files of a small project, ready to run."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import sys
from pathlib import Path
from string import Template
from typing import Annotated

from cyclopts import Parameter

from mainspring.cli.errors import Refused
from mainspring.cli.output import print_line

_APP = '''\
"""The messages of $name, and their consumers."""

from dataclasses import dataclass

from mainspring import Context, Mainspring, every, exponential

app = Mainspring(name="$name")  # its database: url in mainspring.toml, or MAINSPRING_URL


@app.message("orders.placed")
@dataclass
class OrderPlaced:
    order_id: int
    total: float


@app.consumer(OrderPlaced, retry=exponential("1s", cap="10m", attempts=15), timeout="30s")
async def send_receipt(order: OrderPlaced, ctx: Context) -> None:
    print(f"receipt for order {order.order_id}, attempt {ctx.attempt}", flush=True)


@app.recurring(every("1m"))
async def report(ctx: Context) -> None:
    print(f"the report of {ctx.scheduled_for:%H:%M:%S}", flush=True)
'''

_TOML = """\
# Commands take the application from here: `mainspring worker`, `mainspring dead list`.
app = "app:app"
# MAINSPRING_URL wins over it: in production that is a PostgreSQL database.
url = "sqlite:///$name.db"
"""

_UNIT = """\
# Copy it to /etc/systemd/system, then: systemctl enable --now $name-worker
[Unit]
Description=Worker of $name
Wants=network-online.target
After=network-online.target postgresql.service

[Service]
User=$user
WorkingDirectory=$place
# MAINSPRING_URL=postgresql://... , readable by root only; a missing file is no error.
EnvironmentFile=-/etc/$name.env
ExecStart=$command worker
Restart=always
RestartSec=2
# The parent of several processes (--processes) forwards the signal itself.
KillMode=mixed
# More than Mainspring(grace=...), 25 s.
TimeoutStopSec=40

[Install]
WantedBy=multi-user.target
"""

_DOCKERFILE = """\
FROM python:3.13-slim

ENV PYTHONUNBUFFERED=1
WORKDIR /srv/app
COPY . .
# Mainspring is on no package index yet. In its checkout: pip wheel --no-deps --wheel-dir $folder/wheels .
RUN pip install --no-cache-dir --find-links wheels "mainspring[cli,postgres,fast]"
RUN useradd --system app
USER app
# Docker waits 10 s after SIGTERM: give it more than Mainspring(grace=...), as compose.yaml does.
CMD ["mainspring", "worker"]
"""

_IGNORED = """\
.git
.venv
.env*
*.db*
"""

_COMPOSE = """\
services:
  database:
    image: postgres:18
    environment:
      POSTGRES_USER: "$name"
      POSTGRES_DB: "$name"
      POSTGRES_PASSWORD: "$${POSTGRES_PASSWORD:-change-me}"
    volumes:
      - "database:/var/lib/postgresql"
    healthcheck:
      test: ["CMD-SHELL", "pg_isready --username $name --dbname $name"]
      interval: 2s
      timeout: 5s
      retries: 30

  migrate:
    build: .
    command: ["mainspring", "migrate"]
    environment: &environment
      MAINSPRING_URL: "postgresql://$name@database/$name"
      PGPASSWORD: "$${POSTGRES_PASSWORD:-change-me}"
    depends_on:
      database:
        condition: service_healthy

  worker:
    build: .
    environment: *environment
    depends_on:
      migrate:
        condition: service_completed_successfully
    restart: unless-stopped
    stop_grace_period: 40s

volumes:
  database: {}
"""


def init(
    folder: Annotated[Path | None, Parameter(name="FOLDER")] = None,
    /,
    *,
    force: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Write a small application and how to run it: app.py, mainspring.toml, systemd unit, Dockerfile, compose.yaml.

    A file that is there already is kept.

    Parameters
    ----------
    folder
        Where to write them [the current directory]; it is created.
    force
        Overwrite files that are there.
    """
    place = (folder or Path.cwd()).absolute()
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files(place).items():
            print_line(f"{_write(place / name, text, force=force)} {name}")
    except OSError as error:
        raise Refused(f"{error.filename or place} cannot be written: {error.strerror}") from error
    there = "" if place == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    print_line(f"Next: {there}mainspring worker --reload", style="dim")
    print_line("""Then, elsewhere: mainspring publish orders.placed '{"order_id": 7, "total": 9.5}'""", style="dim")


def files(folder: Path) -> dict[str, str]:
    """Return the files of a project in this folder, by name."""
    name = _name(folder)
    words = {"name": name, "folder": folder, "place": _escaped(folder), "user": _user(), "command": _command()}
    templates = {
        "app.py": _APP,
        "mainspring.toml": _TOML,
        f"{name}-worker.service": _UNIT,
        "Dockerfile": _DOCKERFILE,
        "compose.yaml": _COMPOSE,
        ".dockerignore": _IGNORED,
    }
    return {file: Template(text).substitute(words) for file, text in templates.items()}


def _write(path: Path, text: str, *, force: bool) -> str:
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return "kept   "
    return "written"


def _name(folder: Path) -> str:
    """Return the folder's name as that of an app, a database and a service."""
    name = re.sub(r"[^a-z0-9]+", "_", folder.name.lower()).strip("_")[:32]
    return name if name[:1].isalpha() else "shop"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container user without a name
        return str(os.getuid())


def _command() -> str:
    """Return this command with its full path, as a service needs it."""
    script = Path(sys.executable).with_name("mainspring")
    return f'"{_escaped(script)}"' if script.exists() else f'"{_escaped(Path(sys.executable))}" -m mainspring'


def _escaped(path: Path) -> str:
    return str(path).replace("%", "%%")  # systemd has specifiers
