"""Django's consumers at work: found, served, and with connections that are looked after."""

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.integration.frameworks.projects import Project, new_project, postgresql, sqlite

READY = "mainspring worker ready"


def _served(project: Project, until: str, *arguments: str) -> list[str]:
    """What a worker says until it has said this and that it is ready, in either order, and then while it stops."""
    said: list[str] = []
    reading, writing = os.pipe()
    worker = project.start("django", "mainspring_worker", *arguments, output=writing)
    os.close(writing)
    watchdog = threading.Timer(60, worker.kill)
    watchdog.start()
    with os.fdopen(reading) as output:
        for line in output:
            said.append(line.strip())
            # Perhaps on one line: a handler's thread prints too.
            is_said = all(any(text in each for each in said) for text in (until, READY))
            if is_said and (until in line or READY in line):
                worker.send_signal(signal.SIGTERM)
    watchdog.cancel()
    assert worker.wait(60) == 0, said
    assert any(until in line for line in said), said
    return said


def test_a_worker_serves_the_consumers_of_every_installed_app(tmp_path: Path) -> None:
    project = new_project(tmp_path, sqlite(tmp_path / "shop.db"))
    project.script("""
        from mainspring.integrations.django import app
        app.sync.publish("orders.placed", 7)
    """)

    said = _served(project, "shipped 7")

    assert any(f"{READY}: app, " in line for line in said)
    assert any(line.startswith("mainspring worker stopped: app, ") for line in said)


def test_a_worker_may_serve_one_group_only(tmp_path: Path) -> None:
    consumers = """
        from mainspring.integrations.django import app

        @app.consumer("orders.placed", group="shipping")
        def ship(order: int) -> None:
            print(f"shipped {order}", flush=True)

        @app.consumer("orders.placed", group="counting")
        def count(order: int) -> None:
            print(f"counted {order}", flush=True)
    """
    project = new_project(tmp_path, sqlite(tmp_path / "shop.db"), consumers=consumers)
    project.script("""
        from mainspring.integrations.django import app
        app.sync.declare()
        app.sync.publish("orders.placed", 7)
    """)

    said = _served(project, "counted 7", "--group", "counting")

    assert not any("shipped 7" in line for line in said)


def test_several_processes_are_kept_running_and_stopped_together(tmp_path: Path) -> None:
    project = new_project(tmp_path, sqlite(tmp_path / "shop.db"))
    command, environment = project.command("-m", "django", "mainspring_worker", "--processes", "2")
    ready: list[str] = []
    with subprocess.Popen(
        command, cwd=project.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        watchdog = threading.Timer(60, parent.kill)
        watchdog.start()
        assert parent.stdout is not None
        said = []
        for line in parent.stdout:
            said.append(line.split(", process")[0].strip())
            ready += [line] if line.startswith(READY) else []
            if line.startswith(READY) and len(ready) == 2:
                parent.send_signal(signal.SIGTERM)
        watchdog.cancel()

    assert parent.returncode == 0
    assert len({line.split()[-1] for line in ready} | {str(parent.pid)}) == 3
    assert said.count("mainspring worker stopped: app") == 2


def test_a_mistake_of_several_processes_is_told_once(tmp_path: Path) -> None:
    project = new_project(tmp_path, sqlite(tmp_path / "shop.db"), consumers="")

    said = project.refused("mainspring_worker", "--processes", "2")

    assert said.count("no consumer is registered") == 1


def test_a_view_can_send_to_a_consumer_of_another_app(tmp_path: Path) -> None:
    project = new_project(tmp_path, sqlite(tmp_path / "shop.db"))
    project.manage("shell", "--no-imports", "-c", "from orders.consumers import ship; ship.sync.send(8)")

    assert _served(project, "shipped 8")


def test_a_worker_with_nothing_to_do_says_so_in_one_line(tmp_path: Path) -> None:
    project = new_project(tmp_path, sqlite(tmp_path / "shop.db"), consumers="")

    said = project.refused("mainspring_worker")

    assert said.startswith("CommandError: no consumer is registered")
    assert len(said.splitlines()) == 1


def test_what_is_wrong_in_consumers_is_not_hidden(tmp_path: Path) -> None:
    project = new_project(tmp_path, sqlite(tmp_path / "shop.db"), consumers="import nothing_of_that_name")

    assert "No module named 'nothing_of_that_name'" in project.refused("check")


def test_a_handler_in_a_process_of_its_own_has_django_set_up(tmp_path: Path) -> None:
    consumers = """
        from mainspring.integrations.django import app
        from orders.models import Order

        @app.consumer("orders.counted", cpu=True)
        def count(order: int) -> None:
            print(f"{Order._meta.label} {order}", flush=True)
    """
    models = "from django.db import models\n\nclass Order(models.Model):\n    pass\n"
    project = new_project(tmp_path, sqlite(tmp_path / "shop.db"), consumers=consumers, models=models)
    project.script("""
        from mainspring.integrations.django import app
        app.sync.publish("orders.counted", 7)
    """)

    assert _served(project, "orders.Order 7")


LOSING = """
    from asgiref.sync import sync_to_async
    from django.db import connection

    from mainspring import exponential
    from mainspring.integrations.django import app

    soon = exponential("10ms", jitter=0)
    backends = []


    def lose(times: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            backends.append(cursor.fetchone()[0])
            if len(backends) <= times:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


    @app.consumer("connections.lost", retry=soon, concurrency=1)
    def lose_in_a_thread(times: int) -> None:
        lose(times)
        print("thread", len(set(backends)), flush=True)


    @app.consumer("connections.lost_by_coroutines", retry=soon, concurrency=1)
    async def lose_in_a_coroutine(times: int) -> None:
        await sync_to_async(lose)(times)
        print("coroutine", len(set(backends)), flush=True)
"""


def test_a_broken_connection_is_replaced_for_the_next_attempt(tmp_path: Path, postgres_url: str) -> None:
    lasting = postgresql(postgres_url, CONN_MAX_AGE=None)  # nothing but a failure closes them
    project = new_project(tmp_path, lasting, "MAINSPRING = {'SCHEMA': 'django_lost'}", consumers=LOSING)
    project.manage("migrate")
    for topic in ("connections.lost", "connections.lost_by_coroutines"):
        project.script(f"from mainspring.integrations.django import app; app.sync.publish({topic!r}, 2)")

    thread = _served(project, "thread 3", "--group", "lose_in_a_thread")
    coroutine = _served(project, "coroutine 3", "--group", "lose_in_a_coroutine")

    assert "thread 3" in thread
    assert "coroutine 3" in coroutine


BOOKING = """
    from django.db import transaction

    from mainspring import Context, exponential
    from mainspring.integrations.django import app
    from orders.models import Booking


    @app.consumer("booked", retry=exponential("10ms", jitter=0), transactional="default")
    def book(n: int, ctx: Context) -> None:
        assert ctx.tx.alias == "default"
        Booking.objects.create(n=n)  # unique: were the first one left behind, the second would fail
        with transaction.atomic():
            ctx.sync.publish("booking.done", n)
        if ctx.attempt == 1:
            raise RuntimeError("not yet")


    @app.consumer("booking.done")
    def tell(n: int) -> None:
        print("booked", n, [each.n for each in Booking.objects.all()], flush=True)
"""
MODELS = """
    from django.db import models

    class Booking(models.Model):
        n = models.IntegerField(unique=True)
"""


@pytest.mark.parametrize("database", ["SQLite", "PostgreSQL"])
def test_a_consumer_is_one_transaction_with_what_the_models_wrote(
    tmp_path: Path, postgres_url: str, database: str
) -> None:
    databases = sqlite(tmp_path / "shop.db") if database == "SQLite" else postgresql(postgres_url)
    more = "" if database == "SQLite" else "MAINSPRING = {'SCHEMA': 'django_booked'}"
    project = new_project(tmp_path, databases, more, consumers=BOOKING, models=MODELS)
    project.manage("makemigrations", "orders")
    project.manage("migrate")
    project.script("from mainspring.integrations.django import app; app.sync.publish('booked', 7)")

    said = _served(project, "booked 7 [7]")

    assert "\n".join(said).count("booked 7 [7]") == 1
