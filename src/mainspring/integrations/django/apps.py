"""The installable Django app: it imports consumers, checks the settings, and creates the tables.

``manage.py check`` reports what is wrong with the settings and what to write instead; ``manage.py migrate`` creates
Mainspring's tables, in test databases too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.db import connections
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules

from mainspring.app.config import Options
from mainspring.app.mainspring import Mainspring
from mainspring.app.storages import ddl, is_same_database, migration_table
from mainspring.integrations.django.databases import Location, is_in_memory
from mainspring.integrations.django.project import Settings, project_app, read_settings
from mainspring.model.errors import MainspringError

TAG = "mainspring"


class _MainspringConfig(AppConfig):
    """Imports every ``consumers.py``, registers the system checks, creates the tables with ``manage.py migrate``."""

    name: str = "mainspring.integrations.django"
    label: str = "mainspring"
    verbose_name: str = "Mainspring"

    def ready(self) -> None:
        """Import consumers in every process, so that a view can send to one."""
        checks.register(check_project, TAG)
        post_migrate.connect(create_tables, sender=self, dispatch_uid="mainspring")
        if is_in_order():  # if not, the checks and any use of the app report why
            autodiscover_modules("consumers")


def create_tables(*, using: str, verbosity: int = 0, **rest: Any) -> None:
    """Receive ``post_migrate``: create or upgrade the tables, if this is their database."""
    given = read_settings()
    if not given.migrate or using != given.database:
        return
    app = project_app()
    app.sync.close()  # Django may have created a test database since
    applied = migrate(using, app.options)
    if applied and verbosity:
        (rest.get("stdout") or sys.stdout).write(f"Mainspring: applied {', '.join(applied)}\n")


def migrate(alias: str, options: Options) -> list[str]:
    """Create or upgrade the tables in the database of this alias; return the names of the applied migrations."""
    connection = connections[alias]
    if is_in_memory(connection):
        return _in_memory(connection, options.tables)
    place = Mainspring(Location(alias), schema=options.schema, namespace=options.namespace)
    try:
        return place.sync.migrate()
    finally:
        place.sync.close()


def _in_memory(connection: Any, tables: str) -> list[str]:
    # The database is as old as this process, so it has all of the tables or none.
    if migration_table(tables) in connection.introspection.table_names():
        return []
    connection.ensure_connection()
    connection.connection.executescript(ddl("sqlite", tables))
    return ["all"]


def check_project(**_: Any) -> list[checks.CheckMessage]:
    """Return all errors and warnings about the project's settings."""
    return list(_errors()) or list(_warnings(read_settings()))


def is_in_order() -> bool:
    """Return whether an app can be built from the settings."""
    return not any(_errors())


def _errors() -> Iterator[checks.CheckMessage]:
    try:
        read_settings()
    except MainspringError as error:
        yield checks.Error(str(error), id=f"{TAG}.E001")
        return
    try:
        project_app()
    except MainspringError as error:
        yield checks.Error(str(error), id=f"{TAG}.E002")


def _warnings(given: Settings) -> Iterator[checks.CheckMessage]:
    if given.database is None:
        return
    connection = connections[given.database]
    where = f"DATABASES[{given.database!r}]"
    if given.app is not None and not is_same_database(project_app(), Location(given.database)()):
        yield checks.Warning(
            f"{given.app} is on another database than {where}: publishing cannot enlist in Django's transactions.",
            hint="Build it with django_app(…), set MAINSPRING['DATABASE'] to its alias, or to None.",
            id=f"{TAG}.W001",
        )
    if connection.vendor != "sqlite" or is_in_memory(connection):
        return
    given_options = connection.settings_dict
    if str(given_options["OPTIONS"].get("transaction_mode")).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield checks.Warning(
            f"{where}: a transaction that reads before it publishes may fail at once with 'database is locked'.",
            hint="Write 'OPTIONS': {'transaction_mode': 'IMMEDIATE'}.",
            id=f"{TAG}.W002",
        )
    if given_options["ATOMIC_REQUESTS"]:
        yield checks.Warning(
            f"{where} has ATOMIC_REQUESTS: on SQLite, a view that has written and then publishes without tx= waits for "
            "its own transaction until it times out.",
            hint="Write app.sync.publish(…, tx=connection) in views.",
            id=f"{TAG}.W003",
        )
