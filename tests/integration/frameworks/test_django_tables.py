"""Mainspring's tables in Django's databases, those of its tests among them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.integration.frameworks.projects import new_project, postgresql, sqlite
from tests.services.postgres import new_database

TESTS = """
    from django.db import connection, transaction
    from django.test import TestCase, TransactionTestCase

    from mainspring.integrations.django import app
    from mainspring.model.errors import Misuse
    from orders.consumers import ship


    class Joined(TestCase):
        def test_a_publish_is_rolled_back_with_the_test(self):
            app.sync.publish("orders.placed", 1, tx=connection)
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM " + MESSAGES)
                self.assertEqual(cursor.fetchone(), (1,))

        def test_and_leaves_nothing_for_the_next(self):
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM " + MESSAGES)
                self.assertEqual(cursor.fetchone(), (0,))

        def test_the_kit_runs_handlers_in_the_transaction_of_the_test(self):
            with app.testing(tx=connection) as kit:
                ship.sync.send(3)
                kit.sync.drain()
                self.assertEqual(len(kit.delivered(ship, )), 1)


    class Alone(TransactionTestCase):
        def test_a_publish_of_its_own(self):
            ALONE
"""
IN_MEMORY = """
            with self.assertRaisesMessage(Misuse, "is in memory, as in Django's tests"):
                app.sync.publish("orders.placed", 2)
"""
ON_A_SERVER = """
            app.sync.publish("orders.placed", 2)
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM " + MESSAGES)
                self.assertEqual(cursor.fetchone(), (1,))
            app.sync.close()
"""


def _tests(messages: str, alone: str) -> str:
    return TESTS.replace("ALONE", alone.strip()).replace("MESSAGES", repr(messages))


def _messages(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM mainspring_message").fetchone()
    return int(count)


@pytest.fixture
def server(postgres_url: str) -> Iterator[str]:
    with new_database(postgres_url, f"django_{uuid4().hex[:12]}") as url:
        yield url


def test_migrate_creates_them_and_a_second_time_changes_nothing(tmp_path: Path) -> None:
    project = new_project(tmp_path, sqlite(tmp_path / "shop.db"))

    first, second = project.manage("migrate"), project.manage("migrate")

    assert "Mainspring: applied 0001_mailbox" in first
    assert "Mainspring" not in second
    assert _messages(tmp_path / "shop.db") == 0


def test_migrate_on_postgresql_creates_them_in_a_schema_of_their_own(tmp_path: Path, server: str) -> None:
    project = new_project(tmp_path, postgresql(server), "MAINSPRING = {'SCHEMA': 'post_office'}")

    said = project.manage("migrate")

    assert "Mainspring: applied 0001_mailbox" in said
    with psycopg.connect(server) as connection:
        assert connection.execute("SELECT count(*) FROM post_office.message").fetchone() == (0,)


@pytest.mark.parametrize("settings", ["{'MIGRATE': False}", "{'DATABASE': 'messages'}"])
def test_migrate_leaves_them_alone_where_it_is_told_to(tmp_path: Path, settings: str) -> None:
    databases = {**sqlite(tmp_path / "shop.db"), "messages": sqlite(tmp_path / "messages.db")["default"]}
    project = new_project(tmp_path, databases, f"MAINSPRING = {settings}")

    said = project.manage("migrate")

    assert "Mainspring" not in said
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        _messages(tmp_path / "shop.db")


def test_another_database_of_djangos_has_them_when_it_is_migrated(tmp_path: Path) -> None:
    databases = {**sqlite(tmp_path / "shop.db"), "messages": sqlite(tmp_path / "messages.db")["default"]}
    project = new_project(tmp_path, databases, "MAINSPRING = {'DATABASE': 'messages'}")

    said = project.manage("migrate", "--database", "messages")

    assert "Mainspring: applied 0001_mailbox" in said
    assert _messages(tmp_path / "messages.db") == 0


def test_a_test_database_in_memory_has_them(tmp_path: Path) -> None:
    tests = _tests("mainspring_message", IN_MEMORY)
    project = new_project(tmp_path, sqlite(tmp_path / "shop.db"), tests=tests)

    said = project.manage("test")

    assert "Ran 4 tests" in said
    assert not (tmp_path / "shop.db").exists()


def test_a_database_that_is_in_memory_anyway_has_them_too(tmp_path: Path) -> None:
    project = new_project(tmp_path, sqlite(":memory:"), tests=_tests("mainspring_message", IN_MEMORY))

    assert "Ran 4 tests" in project.manage("test")


def test_a_test_database_on_a_server_gets_what_tests_publish_and_the_real_one_gets_nothing(
    tmp_path: Path, server: str
) -> None:
    tests = _tests("mainspring.message", ON_A_SERVER)
    project = new_project(tmp_path, postgresql(server), tests=tests)
    project.manage("migrate")

    said = project.manage("test")

    assert "Ran 4 tests" in said
    with psycopg.connect(server) as connection:
        assert connection.execute("SELECT count(*) FROM mainspring.message").fetchone() == (0,)
