"""System checks: ``manage.py check`` reports what is wrong with the settings, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Doubt
from django.db import connections

from mainspring.app.storages import is_same_database
from mainspring.integrations.django.databases import Location, is_in_memory
from mainspring.integrations.django.project import Settings, project_app, read_settings
from mainspring.model.errors import MainspringError

TAG = "mainspring"


def check_project(**_: Any) -> list[CheckMessage]:
    """Return all errors and warnings about the project's settings."""
    return list(_errors()) or list(_doubts(read_settings()))


def is_in_order() -> bool:
    """Return whether an app can be built from the settings."""
    return not any(_errors())


def _errors() -> Iterator[CheckMessage]:
    try:
        read_settings()
    except MainspringError as error:
        yield Error(str(error), id=f"{TAG}.E001")
        return
    try:
        project_app()
    except MainspringError as error:
        yield Error(str(error), id=f"{TAG}.E002")


def _doubts(given: Settings) -> Iterator[CheckMessage]:
    if given.database is None:
        return
    connection = connections[given.database]
    where = f"DATABASES[{given.database!r}]"
    if given.app is not None and not is_same_database(project_app(), Location(given.database)()):
        yield Doubt(
            f"{given.app} is on another database than {where}: publishing cannot enlist in Django's transactions.",
            hint="Build it with django_app(…), set MAINSPRING['DATABASE'] to its alias, or to None.",
            id=f"{TAG}.W001",
        )
    if connection.vendor != "sqlite" or is_in_memory(connection):
        return
    given_options = connection.settings_dict
    if str(given_options["OPTIONS"].get("transaction_mode")).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield Doubt(
            f"{where}: a transaction that reads before it publishes may fail at once with 'database is locked'.",
            hint="Write 'OPTIONS': {'transaction_mode': 'IMMEDIATE'}.",
            id=f"{TAG}.W002",
        )
    if given_options["ATOMIC_REQUESTS"]:
        yield Doubt(
            f"{where} has ATOMIC_REQUESTS: on SQLite, a view that has written and then publishes without tx= waits for "
            "its own transaction until it times out.",
            hint="Write app.sync.publish(…, tx=connection) in views.",
            id=f"{TAG}.W003",
        )
