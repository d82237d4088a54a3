"""``mainspring doctor``: every value with its source, every finding with what to do, and nothing touched."""

import re
import sqlite3
from pathlib import Path

import psycopg
import pytest

from tests.integration.cli.shell import Ended, Shell
from tests.services.pgbouncer import pgbouncer


def _findings(ended: Ended, about: str) -> list[tuple[str, str, str]]:
    found = [each for each in ended.json["findings"] if each["about"] == about]
    return [(each["grade"], each["summary"], each["advice"]) for each in found]


def _options(ended: Ended) -> dict[str, tuple[str, str]]:
    return {each["option"]: (each["value"], each["source"]) for each in ended.json["options"]}


def _write(shell: Shell, text: str, name: str = "mainspring.toml") -> None:
    (shell.directory / name).write_text(text)


def test_every_value_is_shown_with_its_source(shell: Shell) -> None:
    kept = '[apps.shop.retention.topics."orders.*"]\ndone = "2d"\ndead = "forever"\n'
    _write(shell, f'claim_time = "1m30s"\n\n[retention]\ndead = "90d"\n\n[apps.shop]\npayload_limit = 1000\n{kept}')
    shell.environment |= {"MAINSPRING_PRESET": "development", "MAINSPRING_DURABLE": "no", "MAINSPRING_NAMESPACE": "dev"}

    ended = shell("doctor", "shop:app", "--json")

    assert (ended.code, ended.json["ok"]) == (0, True)
    assert _options(ended) == {
        "url": ("sqlite:///shop.db", "argument"),
        "name": ("shop", "argument"),
        "namespace": ("dev", "MAINSPRING_NAMESPACE"),
        "schema": ("mainspring", "default"),
        "auto_migrate": ("true", "preset development"),
        "payload_limit": ("1_000", "mainspring.toml:7"),
        "claim_time": ("1m 30s", "mainspring.toml:1"),
        "grace": ("25s", "default"),
        "idle_poll": ("5s", "default"),
        "timeout": ("30m", "default"),
        "recurring_timeout": ("12h", "default"),
        "misfire_after": ("1m", "default"),
        "dead": ("latest", "default"),
        "retry": ("messages", "default"),
        "keep": ("all", "argument"),
        "preset": ("development", "MAINSPRING_PRESET"),
        "pool_size": ("4", "default"),
        "require_tls": ("false", "default"),
        "handler_pool": ("10", "default"),
        "worker_concurrency": ("none", "default"),
        "version": ("0", "default"),
        "durable": ("false", "MAINSPRING_DURABLE"),
        "newer_wait": ("1d", "default"),
        "tracing": ("auto", "default"),
        "retention.repeats": ("1d", "default"),
        "retention.done": ("1d", "preset development"),
        "retention.failures": ("30d", "default"),
        "retention.dead": ("90d", "mainspring.toml:4"),
        "retention.parked": ("7d", "default"),
        "retention.workers": ("1d", "default"),
        "retention.audit": ("365d", "default"),
        "retention.inbox": ("30d", "default"),
        "retention.leases": ("7d", "default"),
        "retention.cursors": ("400d", "default"),
        "retention.topics": ("orders.* done 2d, dead forever", "mainspring.toml:8"),
    }


def test_a_new_sqlite_file_is_announced_and_not_made(shell: Shell) -> None:
    ended = shell("doctor", "shop:app", "--json")

    assert ended.code == 0
    assert _findings(ended, "database") == [("note", "there is no file shop.db yet: opening the app creates it", "")]
    assert _findings(ended, "consumers") == [("ok", "3 in shop:app: send_receipt, analytics, expire", "")]
    assert not (shell.directory / "shop.db").exists()


def test_all_is_well_after_a_worker_was_there(stocked: Shell) -> None:
    by_app, by_option, by_variable = stocked.several(
        ("doctor", "shop:app", "--json"), ("doctor", "--app", "shop:app", "--json"), ("doctor", "--json")
    )

    assert [each.code for each in (by_app, by_option, by_variable)] == [0, 0, 0]
    ((grade, summary, advice),) = _findings(by_app, "schema")
    assert (grade, advice) == ("ok", "")
    assert re.fullmatch(r"version \d+, which this release can work with", summary)
    assert _findings(by_app, "groups") == [("ok", "every consumer is declared", "")]
    assert by_option.json["options"] == by_app.json["options"]
    assert _options(by_variable)["url"] == ("sqlite:///shop.db", "MAINSPRING_URL")
    assert _findings(by_variable, "groups") == _findings(by_variable, "consumers") == []


def test_consumers_and_declared_groups_are_held_against_each_other(stocked: Shell) -> None:
    text = (stocked.directory / "shop.py").read_text()
    _write(stocked, text.replace('group="analytics"', 'group="statistics"'), "renamed.py")
    _write(stocked, text.replace('name="shop"', 'name="other"'), "other.py")

    renamed, other = stocked.several(("doctor", "renamed:app", "--json"), ("doctor", "other:app", "--json"))

    assert (renamed.code, other.code) == (0, 1)
    assert _findings(renamed, "groups") == [
        (
            "warning",
            "not declared yet, so nothing that is published reaches them: statistics",
            "mainspring declare renamed:app (a worker does it when it starts)",
        ),
        (
            "note",
            "declared, but no longer in the code: analytics",
            "mainspring groups retire analytics --app renamed:app",
        ),
    ]
    assert _findings(other, "groups")[0] == (
        "error",
        "group 'send_receipt' belongs to app 'shop' in this database, and this app is 'other'",
        "if it is the same application: Mainspring(…, name='shop'); if not, another group=…",
    )


def test_looking_at_a_file_of_somebody_else_leaves_every_byte(shell: Shell) -> None:
    file = shell.directory / "shop.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE orders (id integer)")
    connection.close()
    before = file.read_bytes()

    ended = shell("doctor", "shop:app", "--json")

    assert _findings(ended, "database") == [("note", "shop.db has no tables yet: opening the app creates them", "")]
    assert file.read_bytes() == before
    assert {path.name for path in shell.directory.iterdir() if path.name.startswith("shop.db")} == {"shop.db"}


def test_tables_that_are_missing_in_sqlite_are_not_made_by_looking(shell: Shell) -> None:
    file = shell.directory / "shop.db"
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE orders (id integer)")
    connection.close()

    ended = shell("doctor", "shop:app", "--json")

    assert _findings(ended, "schema") == [("note", "there are no tables yet: opening the app does that", "")]
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("orders",)]
    connection.close()


@pytest.mark.parametrize(
    ("url", "summary"),
    [
        ("sqlite:///no/shop.db", "/no does not exist"),
        ("sqlite:///shop.py", "shop.py is no SQLite database"),
        ("sqlite:///folder", "folder is not a file"),
    ],
)
def test_a_sqlite_file_that_cannot_be_used_is_an_error(shell: Shell, url: str, summary: str) -> None:
    (shell.directory / "folder").mkdir()

    ended = shell("doctor", "--url", url, "--json")

    ((grade, said, advice),) = _findings(ended, "database")
    assert (ended.code, grade) == (1, "error")
    assert said.endswith(summary)
    assert advice


def test_a_server_that_is_away_is_an_error_without_its_password(shell: Shell) -> None:
    shell.environment["SHOP_URL"] = "postgresql://shop:s3cret@127.0.0.1:1/shop?password=s3cret"

    told, ended = shell("doctor", "shop:app"), shell("doctor", "shop:app", "--json")

    ((grade, said, advice),) = _findings(ended, "database")
    assert (told.code, ended.code, grade) == (1, 1, "error")
    assert "cannot be reached" in said
    assert advice == "is it running, and is that its address? May this host and this user connect?"
    assert _options(ended)["url"] == ("postgresql://shop@127.0.0.1:1/shop", "argument")
    assert "s3cret" not in told.out + told.err + ended.out + ended.err


@pytest.mark.no_schema
def test_postgresql_from_nothing_to_all_is_well(shell: Shell, postgres_url: str, postgres_schema: str) -> None:
    shell.environment |= {"SHOP_URL": postgres_url, "SHOP_SCHEMA": postgres_schema, "MAINSPRING_DURABLE": "true"}

    bare, _, migrated, _, declared = shell.several(
        ("doctor", "shop:app", "--json"),
        ("migrate", "--app", "shop:app"),
        ("doctor", "shop:app", "--json"),
        ("declare", "shop:app"),
        ("doctor", "shop:app", "--json"),
    )

    assert (bare.code, migrated.code, declared.code) == (1, 0, 0)
    assert _findings(bare, "schema") == [("error", "there are no tables yet", "mainspring migrate --app shop:app")]
    assert _findings(bare, "bell") == [("ok", "NOTIFY works: it wakes workers for new work at once", "")]
    assert _findings(migrated, "groups")[0][0] == "warning"
    assert _findings(declared, "groups") == [("ok", "every consumer is declared", "")]
    assert _findings(declared, "durable") == [
        ("note", "set by MAINSPRING_DURABLE, and without effect: the database is postgresql", "")
    ]
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"INSERT INTO {postgres_schema}.migration VALUES (9999, 'x', 'x', true, now())".encode())
    newer = shell("doctor", "shop:app", "--json")
    ((grade, said, advice),) = _findings(newer, "schema")
    assert (newer.code, grade, advice) == (1, "error", "pip install --upgrade mainspring")
    assert "schema version 9999" in said


def test_behind_a_pooler_it_says_how_work_is_found(shell: Shell, postgres_url: str, tmp_path: Path) -> None:
    with pgbouncer(tmp_path, postgres_url) as address:
        ended = shell("doctor", "--url", address, "--json")

    ((grade, said, advice),) = _findings(ended, "bell")
    assert grade == "warning"
    assert said.startswith("no NOTIFY arrives, as behind a pooler")
    assert advice == "for low latency, let workers connect to the server itself"
    assert ended.err == ""


def test_everything_that_is_wrong_with_the_configuration_is_told_at_once(shell: Shell) -> None:
    _write(shell, 'grase = "3s"\nkeep = "some"\n')
    shell.environment |= {"MAINSPRING_PRESET": "dev", "MAINSPRING_URL": "postgresql://shop:s3cret@host/shop"}

    ended = shell("doctor", "shop:app", "--json")

    assert ended.code == 1
    assert ended.json["options"] == []
    assert [said for _, said, _ in _findings(ended, "configuration")] == [
        "environment: MAINSPRING_PRESET='dev' is not one of 'production', 'development'.",
        "mainspring.toml, line 1, column 1: there is no option 'grase'. Did you mean 'grace'?",
        "mainspring.toml, line 2, column 1: keep='some' is not one of 'all', 'failures', 'none'.",
    ]
    assert _findings(ended, "application") == [("note", "shop:app is checked once the configuration is valid", "")]
    assert "s3cret" not in ended.out


def test_what_is_set_for_schedules_is_held_against_those_of_the_code(timed: Shell) -> None:
    _write(timed, '[schedules]\ntik = "every 1s"\ndaily_report = "0 25 * * *"\n')

    by_app, by_file = timed.several(("doctor", "clockwork:app", "--json"), ("doctor", "--json"))

    assert (by_app.code, by_file.code, by_app.err) == (1, 0, "")
    assert [each[:2] for each in _findings(by_app, "schedules")] == [
        ("ok", "4 in clockwork:app: tick, daily_report, unlucky, odd"),
        (
            "error",
            (
                "mainspring.toml:3: schedule daily_report: bad cron expression '0 25 * * *': hours: found 25, allowed: "
                "0-23. The code's own value is used"
            ),
        ),
        ("warning", "mainspring.toml:2: this app has no schedule 'tik'. Did you mean 'tick'? It is ignored"),
    ]
    assert [each[0] for each in _findings(by_file, "schedules")] == ["note"]


def test_a_second_file_and_an_empty_variable_are_mentioned(shell: Shell) -> None:
    _write(shell, 'grace = "3s"\n')
    _write(shell, '[tool.mainspring]\ngrace = "4s"\n', "pyproject.toml")
    shell.environment["MAINSPRING_GRACE"] = ""

    ended = shell("doctor", "--json")

    assert ended.code == 0
    assert _options(ended)["grace"] == ("3s", "mainspring.toml:1")
    assert _findings(ended, "configuration") == [
        ("ok", "read from mainspring.toml", ""),
        (
            "warning",
            "pyproject.toml has options too, and is not read: mainspring.toml comes first",
            "move them into mainspring.toml",
        ),
        ("note", "MAINSPRING_GRACE is empty, which counts as not set", "give it a value, or: unset MAINSPRING_GRACE"),
    ]
    assert _findings(ended, "database")[0][:2] == ("note", "no database is given: only the configuration was checked")


def test_an_application_that_cannot_be_imported_is_an_error(shell: Shell) -> None:
    _write(shell, "from mainspring import Mainspring\n\napp = Mainspring('memory://', grace='soon')\n", "broken.py")

    ended = shell("doctor", "broken:app", "--json")

    assert ended.code == 1
    ((grade, said, advice),) = _findings(ended, "application")
    assert ended.json["options"] == []  # the defaults are not its own
    assert advice == "the options of an application are shown once it can be imported"
    assert grade == "error"
    assert said.startswith("importing broken failed: BadOption: grace='soon' is not a duration")
    assert said.endswith("(broken.py:3)")


def test_an_app_without_consumers_in_memory_has_only_notes(shell: Shell) -> None:
    _write(shell, "from mainspring import Mainspring\n\napp = Mainspring('memory://')\n", "bare.py")

    ended = shell("doctor", "bare:app", "--json")

    assert ended.code == 0
    assert _findings(ended, "consumers")[0][:2] == ("note", "bare:app has none: it can publish, but not consume")
    assert _findings(ended, "database") == [("note", "memory:// is lost with the process: for tests only", "")]


def test_people_see_two_tables_and_a_verdict(shell: Shell) -> None:
    piped, shown = shell("doctor", "shop:app"), shell.on_terminal("doctor", "shop:app")

    lines = piped.out.splitlines()
    assert lines[0].split() == ["OPTION", "VALUE", "SET", "BY"]
    assert lines[1].split() == ["url", "sqlite:///shop.db", "argument"]
    assert lines[lines.index("") + 1].split(maxsplit=2) == ["CHECK", "STATUS", "FINDING"]
    assert "note" in lines[-1]
    assert shown.code == piped.code == 0
    assert "\x1b[2mdefault" in shown.out
    assert "Traceback" not in shown.out


def test_two_applications_are_refused(shell: Shell) -> None:
    assert "are two applications" in shell("doctor", "shop:app", "--app", "other:app").complaint


def test_commands_take_the_database_from_the_file(stocked: Shell) -> None:
    del stocked.environment["MAINSPRING_URL"]
    _write(stocked, 'url = "sqlite:///shop.db"\n')

    assert len(stocked("dead", "list", "--json").json) == 2


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("shop.db", "the database URL has no scheme"),
        ("postgresql://ann:s3?cret@db/shop", "the PostgreSQL URL cannot be read"),
        ("postgresql://ann:s3cret@[db/shop", "the PostgreSQL URL cannot be read"),
        ("postgresql://ann:s3cret@db:notaport/shop", "the port in the PostgreSQL URL is no number"),
        ("postgresql+psycopg://ann:s3cret@db:notaport/shop", "the port in the PostgreSQL URL is no number"),
        ("postgresql://ann:s3cret/shop", "the port in the PostgreSQL URL is no number"),
    ],
)
def test_a_url_that_cannot_be_read_is_told_with_where_it_is_set(shell: Shell, url: str, said: str) -> None:
    by_option = shell("doctor", "--url", url, "--json")
    shell.environment["MAINSPRING_URL"] = url
    by_variable = shell("doctor", "--json")

    ((grade, summary, advice),) = _findings(by_variable, "database")
    assert (by_option.code, by_variable.code, grade) == (1, 1, "error")
    assert summary.startswith(said)
    assert advice == "it is set by MAINSPRING_URL: correct it there"
    assert _findings(by_option, "database")[0][:2] == ("error", summary)
    assert "s3" not in by_option.out + by_variable.out


def test_a_django_project_without_its_settings_is_told_how_to_name_them(shell: Shell) -> None:
    shell.environment.pop("DJANGO_SETTINGS_MODULE", None)
    _write(shell, "from mainspring.integrations.django import app\n", "spring.py")

    itself, imported = shell.several(
        ("doctor", "mainspring.integrations.django:app", "--json"), ("doctor", "spring:app", "--json")
    )

    action = (
        "Django's settings are not configured: set DJANGO_SETTINGS_MODULE, as in "
        "DJANGO_SETTINGS_MODULE=shop.settings, or use manage.py"
    )
    unread = "the options of an application are shown once it can be imported"
    assert _findings(itself, "application") == [("error", action, unread)]
    assert _findings(imported, "application") == [
        ("error", f"importing spring failed: Misuse: {action} (spring.py:1)", unread)
    ]


def test_the_sum_of_all_extras_is_not_counted_as_one(shell: Shell) -> None:
    found = next(each for each in shell("doctor", "--json").json["findings"] if each["about"] == "installation")

    extras = re.split("with |without |, ", found["summary"])
    assert "cli" in extras
    assert "all" not in extras
