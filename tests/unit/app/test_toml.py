"""The configuration file: found where people expect it, and every mistake in it told with its line."""

from pathlib import Path

import pytest

from mainspring.app.config import Options
from mainspring.app.environment import read_environment
from mainspring.app.toml import positions

GRACE = 'grace = "{}s"\n'


def _grace(folder: Path, **environ: str) -> float:
    around = read_environment(environ, folder)
    assert around.problems == ()
    return Options.read({}, *around.layers()).grace.total_seconds()


def test_every_key_is_found_where_it_stands() -> None:
    text = (
        "# first = 1\n"
        'name = "a" # not = this\n'
        'text = """\n'
        "inside = 1\n"
        "[nothing]\n"
        '"""\n'
        "lines = [\n"
        '  "a==1",\n'
        "  { deep = 1 },\n"
        "]\n"
        'retention = { done = "1d", dead = "2d" }\n'
        "none = {}\n"
        "\n"
        "  [ apps . 'my shop' ]\n"
        '  "claim_time" = 1.5\n'
        'retention.audit = "a\\"b = 1"\n'
        "[[many]]\n"
        "when = 1979-05-27T07:32:00Z\n"
    )

    assert positions(text) == {
        ("name",): (2, 1),
        ("text",): (3, 1),
        ("lines",): (7, 1),
        ("lines", "deep"): (9, 5),
        ("retention",): (11, 1),
        ("retention", "done"): (11, 15),
        ("retention", "dead"): (11, 28),
        ("none",): (12, 1),
        ("apps", "my shop"): (14, 5),
        ("apps", "my shop", "claim_time"): (15, 3),
        ("apps", "my shop", "retention", "audit"): (16, 1),
        ("many",): (17, 3),
        ("many", "when"): (18, 1),
    }


def test_the_file_is_found_from_below_up_to_the_root_of_the_project(tmp_path: Path) -> None:
    inner = tmp_path / "src" / "shop"
    inner.mkdir(parents=True)
    (tmp_path / "mainspring.toml").write_text(GRACE.format(3))

    assert _grace(inner) == 25
    (tmp_path / ".git").mkdir()
    assert _grace(inner) == 3
    (tmp_path / "src" / "pyproject.toml").touch()
    assert _grace(inner) == 25


def test_the_nearest_file_counts_and_the_others_are_named(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.mainspring]\n" + GRACE.format(1))
    assert _grace(inner) == 1

    (tmp_path / "mainspring.toml").write_text(GRACE.format(2))
    assert _grace(inner) == 2

    (inner / "mainspring.toml").write_text(GRACE.format(3))
    assert _grace(inner) == 3
    around = read_environment({}, inner)
    assert around.file == "mainspring.toml"
    assert around.unread == (f"{tmp_path}/mainspring.toml", f"{tmp_path}/pyproject.toml")


@pytest.mark.parametrize(
    "text",
    [
        '[tool.mainspring]\ngrace = "3s"\n',
        '[tool]\nmainspring.grace = "3s"\n',
        'tool = { mainspring = { grace = "3s" } }\n',
        '[tool."mainspring"]\ngrace = "3s"\n',
    ],
)
def test_a_pyproject_holds_our_table_however_it_is_written(text: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(text)

    assert _grace(tmp_path) == 3


@pytest.mark.parametrize("text", ['[project]\nname = "shop"\n', "[tool]\nx = 1\n", "[project\n", "[tool]\nbroken"])
def test_a_pyproject_without_our_table_is_none_of_our_business(text: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(text)

    around = read_environment({}, tmp_path)

    assert (around.file, around.problems) == (None, ())


def test_a_variable_names_one_file_and_the_null_device_none(tmp_path: Path) -> None:
    (tmp_path / "mainspring.toml").write_text(GRACE.format(1))
    (tmp_path / "staging.toml").write_text(GRACE.format(2))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "pyproject.toml").write_text("[tool.mainspring]\n" + GRACE.format(3))

    assert _grace(tmp_path) == 1
    assert _grace(tmp_path, MAINSPRING_CONFIG="staging.toml") == 2
    assert _grace(tmp_path / "other", MAINSPRING_CONFIG=str(tmp_path / "staging.toml")) == 2
    assert _grace(tmp_path, MAINSPRING_CONFIG="other/pyproject.toml") == 3
    assert _grace(tmp_path, MAINSPRING_CONFIG="/dev/null") == 25


def test_a_named_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    around = read_environment({"MAINSPRING_CONFIG": "no.toml"}, tmp_path)

    assert around.problems == ("MAINSPRING_CONFIG='no.toml': no.toml cannot be read: No such file or directory",)


def test_a_table_of_an_app_is_for_that_app_alone(tmp_path: Path) -> None:
    (tmp_path / "mainspring.toml").write_text(
        f'{GRACE.format(1)}idle_poll = "2s"\n[apps.shop]\n{GRACE.format(3)}[apps.shop.retention]\ndead = "4d"\n'
    )
    around = read_environment({}, tmp_path)

    shop = Options.read({"name": "shop"}, *around.layers("shop"))
    other = Options.read({"name": "other"}, *around.layers("other"))

    assert (shop.grace.total_seconds(), shop.idle_poll.total_seconds()) == (3, 2)
    assert (other.grace.total_seconds(), other.idle_poll.total_seconds()) == (1, 2)
    assert (shop.sources["retention.dead"], other.sources["retention.dead"]) == ("mainspring.toml:6", "default")


def test_the_name_that_is_set_here_chooses_the_table(tmp_path: Path) -> None:
    (tmp_path / "mainspring.toml").write_text(
        f'name = "shop"\n[apps.shop]\n{GRACE.format(3)}[apps.x]\n{GRACE.format(4)}'
    )

    assert _grace(tmp_path) == 3
    assert _grace(tmp_path, MAINSPRING_NAME="x") == 4


def test_windows_line_ends_and_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    (tmp_path / "mainspring.toml").write_bytes(b'\xef\xbb\xbf# first\r\ngrace = "3s"\r\n')

    options = Options.read({}, *read_environment({}, tmp_path).layers())

    assert (options.grace.total_seconds(), options.sources["grace"]) == (3, "mainspring.toml:2")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("grace = \n", "line 1, column 9: Invalid value"),
        ("grace = soon # not now\n", 'line 1, column 9: Invalid value: text needs quotes, write grace = "soon"'),
        (
            "[retention]\ndone = 1d\n",
            (
                "line 2, column 9: Expected newline or end of document after a statement: text needs quotes, "
                'write done = "1d"'
            ),
        ),
        ("durable = True\n", "line 1, column 11: Invalid value: write durable = true"),
        ("payload_limit = 1,000\n", "line 1, column 18: Expected newline or end of document after a statement"),
        ('# a\n  grace "3s"\n', "line 2, column 9: Expected '=' after a key in a key/value pair"),
        ("name = '", 'line 1, column 9: Expected "\'"'),
        ('grace = "1s"\ngrace = "2s"\n', "line 2, column 13: Cannot overwrite a value"),
        ("claim_tim = 1\n", "line 1, column 1: there is no option 'claim_tim'. Did you mean 'claim_time'?"),
        ("claim-time = 1\n", "line 1, column 1: there is no option 'claim-time'. Did you mean 'claim_time'?"),
        (
            "\n[xyzzy]\na = 1\n",
            (
                "line 2, column 2: there is no option 'xyzzy'. There are app, apps, auto_migrate, claim_time, dead, "
                "durable, grace, handler_pool, idle_poll, keep, misfire_after, name, namespace, newer_wait, "
                "payload_limit, pool_size, preset, recurring_timeout, require_tls, retention, retry, schedules, "
                "schema, timeout, tracing, url, version, worker_concurrency"
            ),
        ),
        (
            "[retention]\nded = 1\n",
            "line 2, column 1: there is no option 'retention.ded'. Did you mean 'retention.dead'?",
        ),
        ('retention = "7d"', "line 1, column 1: retention='7d' must be a table, as in [retention] with done = \"1d\""),
        (
            "retention = { done = 3 }",
            (
                "line 1, column 15: retention.done=3 has no unit: write a timedelta or text like '30s', '15m', "
                "'1h30m', '2d', or 'forever'"
            ),
        ),
        (
            '[retention.topics."orders.*"]\ndone = "7d"\nded = "1d"\n',
            "line 3, column 1: retention.topics['orders.*'] has no kind 'ded'. Did you mean 'dead'?",
        ),
        (
            '[retention.topics]\n"orders.*" = { done = "0s" }\n',
            (
                "line 2, column 16: retention.topics['orders.*'].done='0s' is out of bounds: it must be at least 1s, "
                "or 'forever'"
            ),
        ),
        (
            '[retention]\ntopics = "7d"\n',
            'line 2, column 1: retention.topics=\'7d\' must be a mapping, as in {"orders.*": {"done": "7d"}}',
        ),
        (
            '[retention.topics]\n"orders*" = { done = "1d" }\n',
            (
                "line 2, column 15: retention.topics: topic pattern 'orders*': `*` stands for one whole segment, as in "
                "'orders.*'"
            ),
        ),
        ('\ndurable = "yes"', "line 2, column 1: durable='yes' must be True or False"),
        ('pool_size = "5"', "line 1, column 1: pool_size='5' must be a whole number from 1 to 1,000"),
        ("pool_size = [1]", "line 1, column 1: pool_size=[1] must be a whole number from 1 to 1,000"),
        ("url = 5", "line 1, column 1: url must be text, as in 'sqlite:///shop.db', not int"),
        ("apps = 1", "line 1, column 1: apps holds a table for each app, as in [apps.shop]"),
        ("[apps]\nshop = 1", "line 2, column 1: apps holds a table for each app, as in [apps.shop]"),
        (
            '[apps.shop]\nname = "x"',
            ("line 2, column 1: the table is for the app of that name already: leave out name, or rename shop"),
        ),
        (
            '[apps.shop]\ngrace = "x"',
            "line 2, column 1: grace='x' is not a duration: write text like '30s', '15m', '1h30m', '500ms', '2d'",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line_and_column(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "mainspring.toml").write_text(text)

    assert read_environment({}, tmp_path).problems == (f"mainspring.toml, {problem}",)


def test_a_mistake_in_a_pyproject_has_the_line_of_that_file(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n\n[tool.mainspring]\nname = "shop"\ngrase = 1\n')

    assert read_environment({}, tmp_path).problems == (
        "pyproject.toml, line 6, column 1: there is no option 'grase'. Did you mean 'grace'?",
    )


def test_a_broken_pyproject_with_our_table_is_told(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.mainspring]\ngrace\n")

    assert read_environment({}, tmp_path).problems == (
        "pyproject.toml, line 2, column 6: Expected '=' after a key in a key/value pair",
    )


def test_a_file_that_is_not_utf_8_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mainspring.toml").write_bytes(b'grace = "1s"\nname = "caf\xe9"\n')

    assert read_environment({}, tmp_path).problems == ("mainspring.toml, line 2: this is not UTF-8, as TOML has to be",)


def test_a_directory_that_was_removed_holds_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    around = read_environment({})

    assert (around.file, around.problems) == (None, ())
