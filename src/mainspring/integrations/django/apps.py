"""The installable Django app; ``manage.py migrate`` creates Mainspring's tables, in test databases too."""

from __future__ import annotations

import sys
from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.db import connections
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules

from mainspring.app.config import Options
from mainspring.app.mainspring import Mainspring
from mainspring.app.storages import ddl, migration_table
from mainspring.integrations.django.checks import TAG, check_project, is_in_order
from mainspring.integrations.django.databases import Location, is_in_memory
from mainspring.integrations.django.project import project_app, read_settings


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
