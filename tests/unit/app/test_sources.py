"""Arguments over the environment over the file over the preset over the defaults, for every option there is."""

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.config import NAMES, Options
from mainspring.app.environment import read_environment
from mainspring.model.errors import BadOption
from mainspring.model.retention import Retention
from mainspring.timing.backoff import MESSAGES, NO_RETRY, RECURRING


@dataclass(frozen=True)
class Case:
    """One option at every place it can be set at, with another value at each."""

    default: object
    file: str
    in_file: object
    own: str
    in_own: object
    variable: str
    in_variable: object
    argument: dict[str, Any]
    in_argument: object
    preset: object = field(default=...)


def _length(option: str, default: timedelta) -> Case:
    """An option that is a length of time."""
    return Case(
        default,
        '"11s"',
        timedelta(seconds=11),
        '"12s"',
        timedelta(seconds=12),
        "13s",
        timedelta(seconds=13),
        {option: "14s"},
        timedelta(seconds=14),
    )


def _kept(field_name: str, default: timedelta | None, preset: object = ...) -> Case:
    """A field of the retention, for ever at one place: that is a value too."""
    last = timedelta(days=14)
    kept: dict[str, Any] = {field_name: last}
    return Case(
        default,
        '"11d"',
        timedelta(days=11),
        '"forever"',
        None,
        "13d",
        timedelta(days=13),
        {"retention": Retention(**kept)},
        last,
        preset,
    )


def _short(field_name: str, default: timedelta) -> Case:
    case = _kept(field_name, default)
    return Case(
        default,
        case.file,
        case.in_file,
        '"12d"',
        timedelta(days=12),
        case.variable,
        case.in_variable,
        case.argument,
        case.in_argument,
    )


HOUR, DAY = timedelta(hours=1), timedelta(days=1)
CASES = {
    "name": Case("app", '"f"', "f", "", "", "v", "v", {"name": "a"}, "a"),
    "namespace": Case(None, '"f"', "f", '"o"', "o", "v", "v", {"namespace": "a"}, "a"),
    "schema": Case("mainspring", '"f"', "f", '"o"', "o", "v", "v", {"schema": "a"}, "a"),
    "auto_migrate": Case(False, "true", True, "false", False, "true", True, {"auto_migrate": False}, False, True),
    "payload_limit": Case(262_144, "1_001", 1001, "1002", 1002, "1_003", 1003, {"payload_limit": 1004}, 1004),
    "claim_time": _length("claim_time", timedelta(seconds=30)),
    "grace": _length("grace", timedelta(seconds=25)),
    "idle_poll": _length("idle_poll", timedelta(seconds=5)),
    "timeout": _length("timeout", timedelta(minutes=30)),
    "recurring_timeout": _length("recurring_timeout", timedelta(hours=12)),
    "misfire_after": _length("misfire_after", timedelta(minutes=1)),
    "retry": Case(
        MESSAGES, '"none"', NO_RETRY, '"recurring"', RECURRING, "none", NO_RETRY, {"retry": "messages"}, MESSAGES
    ),
    "dead": Case("latest", '"all"', "all", '"latest"', "latest", "all", "all", {"dead": "latest"}, "latest"),
    "keep": Case("failures", '"none"', "none", '"all"', "all", "none", "none", {"keep": "failures"}, "failures", "all"),
    "preset": Case(
        "production",
        '"development"',
        "development",
        '"production"',
        "production",
        "development",
        "development",
        {"preset": "production"},
        "production",
        "development",
    ),
    "pool_size": Case(4, "5", 5, "6", 6, "7", 7, {"pool_size": 8}, 8),
    "handler_pool": Case(10, "5", 5, "6", 6, "7", 7, {"handler_pool": 8}, 8),
    "worker_concurrency": Case(None, "5", 5, "6", 6, "7", 7, {"worker_concurrency": 8}, 8),
    "version": Case(0, "5", 5, "6", 6, "7", 7, {"version": 8}, 8),
    "require_tls": Case(False, "true", True, "false", False, "yes", True, {"require_tls": False}, False),
    "durable": Case(False, "true", True, "false", False, "yes", True, {"durable": False}, False),
    "newer_wait": _length("newer_wait", DAY),
    "tracing": Case(None, "true", True, "false", False, "yes", True, {"tracing": False}, False),
    "retention.repeats": _short("repeats", DAY),
    "retention.done": _kept("done", 7 * DAY, DAY),
    "retention.failures": _kept("failures", 30 * DAY),
    "retention.dead": _kept("dead", None),
    "retention.parked": _kept("parked", 7 * DAY),
    "retention.workers": _short("workers", DAY),
    "retention.audit": _kept("audit", 365 * DAY),
    "retention.inbox": _kept("inbox", 30 * DAY),
    "retention.leases": _kept("leases", 7 * DAY),
    "retention.cursors": _kept("cursors", 400 * DAY),
    "retention.topics": Case(
        {},
        '{ "a.*" = { done = "1d", dead = "forever" }, b = { parked = "2d" } }',
        {"a.*": {"done": DAY, "dead": None}, "b": {"parked": 2 * DAY}},
        '{ "a.#" = { failures = "3d" } }',
        {"a.#": {"failures": 3 * DAY}},
        '{"a": {"done": "4d"}}',
        {"a": {"done": 4 * DAY}},
        {"retention": Retention(topics={"c": {"done": 5 * DAY}})},
        {"c": {"done": 5 * DAY}},
    ),
}


def test_every_option_is_in_the_table() -> None:
    assert set(CASES) == set(NAMES)


@pytest.mark.parametrize("option", CASES)
def test_each_place_wins_over_those_below_it(option: str, tmp_path: Path) -> None:
    case = CASES[option]
    file = f"{option} = {case.file}\n"
    own = f"[apps.{'a' if option == 'name' else 'app'}]\n{option} = {case.own}\n" if case.own else ""
    variable = {"MAINSPRING_" + option.upper().replace(".", "_"): case.variable}
    development = {"MAINSPRING_PRESET": "development"}
    preset = case.default if case.preset is ... else case.preset

    assert _read(option, tmp_path) == (case.default, "default")
    if option != "preset":
        from_preset = (preset, "default" if case.preset is ... else "preset development")
        assert _read(option, tmp_path, environ=development) == from_preset
        assert _read(option, tmp_path, file, environ=development) == (case.in_file, "mainspring.toml:1")
    assert _read(option, tmp_path, file) == (case.in_file, "mainspring.toml:1")
    if own:
        assert _read(option, tmp_path, file + own) == (case.in_own, "mainspring.toml:3")
    assert _read(option, tmp_path, file + own, environ=variable) == (case.in_variable, next(iter(variable)))
    last = _read(option, tmp_path, file + own, environ=variable, argument=case.argument)
    assert last == (case.in_argument, "argument")


def _read(
    option: str,
    folder: Path,
    file: str = "",
    environ: dict[str, str] | None = None,
    argument: dict[str, Any] | None = None,
) -> tuple[object, str]:
    (folder / "mainspring.toml").write_text(file)
    around = read_environment(environ or {}, folder)
    assert around.problems == ()
    options = Options.read(argument or {}, *around.layers())
    outer, _, inner = option.partition(".")
    value = getattr(options, outer)
    return getattr(value, inner) if inner else value, options.sources[option]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("True", True),
        ("1", True),
        ("yes", True),
        ("ON", True),
        ("false", False),
        ("FALSE", False),
        ("0", False),
        ("no", False),
        ("off", False),
    ],
)
def test_a_variable_is_true_or_false_in_many_words(text: str, value: bool, tmp_path: Path) -> None:
    (tmp_path / "mainspring.toml").write_text(f"durable = {str(not value).lower()}")

    around = read_environment({"MAINSPRING_DURABLE": text}, tmp_path)

    assert Options.read({}, *around.layers()).durable is value


def test_an_empty_variable_counts_as_not_set_and_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "mainspring.toml").write_text('grace = "3s"')

    around = read_environment({"MAINSPRING_GRACE": "", "MAINSPRING_CONFIG": " "}, tmp_path)

    assert Options.read({}, *around.layers()).grace == timedelta(seconds=3)
    assert around.empty == ("MAINSPRING_CONFIG", "MAINSPRING_GRACE")
    assert around.problems == ()


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        (
            "MAINSPRING_CLAIM_TIME",
            "x",
            "MAINSPRING_CLAIM_TIME='x' is not a duration: write text like '30s', '15m', '1h30m', '500ms', '2d'",
        ),
        (
            "MAINSPRING_CLAIM_TIME",
            "1s",
            "MAINSPRING_CLAIM_TIME='1s' is out of bounds: it must be between 2s and 1d",
        ),
        ("MAINSPRING_DURABLE", "maybe", "MAINSPRING_DURABLE='maybe' must be True or False"),
        ("MAINSPRING_POOL_SIZE", "many", "MAINSPRING_POOL_SIZE='many' must be a whole number from 1 to 1,000"),
        ("MAINSPRING_POOL_SIZE", "1e3", "MAINSPRING_POOL_SIZE='1e3' must be a whole number from 1 to 1,000"),
        ("MAINSPRING_POOL_SIZE", "0", "MAINSPRING_POOL_SIZE=0 must be a whole number from 1 to 1,000"),
        (
            "MAINSPRING_KEEP",
            "failure",
            "MAINSPRING_KEEP='failure' is not one of 'all', 'failures', 'none'. Did you mean 'failures'?",
        ),
        ("MAINSPRING_PRESET", "dev", "MAINSPRING_PRESET='dev' is not one of 'production', 'development'."),
        ("MAINSPRING_NAME", "a/b", "MAINSPRING_NAME='a/b' has a '/': use '.', '-' or '_'"),
        (
            "MAINSPRING_SCHEMA",
            "9",
            "MAINSPRING_SCHEMA='9' must be 1 to 40 of a-z, 0-9 and '_', not beginning with a digit",
        ),
        (
            "MAINSPRING_RETENTION_DEAD",
            "ever",
            (
                "MAINSPRING_RETENTION_DEAD='ever' is not a duration: write text like '30s', '15m', '1h30m', '500ms', "
                "'2d', or 'forever'"
            ),
        ),
        (
            "MAINSPRING_RETENTION_WORKERS",
            "forever",
            (
                "MAINSPRING_RETENTION_WORKERS='forever' is not a duration: write text like '30s', '15m', '1h30m', "
                "'500ms', '2d'"
            ),
        ),
        (
            "MAINSPRING_RETENTION_TOPICS",
            "orders.*=7d",
            'MAINSPRING_RETENTION_TOPICS=\'orders.*=7d\' must be a mapping, as in {"orders.*": {"done": "7d"}}',
        ),
        (
            "MAINSPRING_RETENTION_TOPICS",
            '{"orders.*": {"doen": "7d"}}',
            "MAINSPRING_RETENTION_TOPICS['orders.*'] has no kind 'doen'. Did you mean 'done'?",
        ),
        (
            "MAINSPRING_RETENTION",
            "7d",
            (
                "MAINSPRING_RETENTION has a variable for each of its fields: MAINSPRING_RETENTION_REPEATS, "
                "MAINSPRING_RETENTION_DONE, MAINSPRING_RETENTION_FAILURES, MAINSPRING_RETENTION_DEAD, "
                "MAINSPRING_RETENTION_PARKED, MAINSPRING_RETENTION_WORKERS, MAINSPRING_RETENTION_AUDIT, "
                "MAINSPRING_RETENTION_INBOX, MAINSPRING_RETENTION_LEASES, MAINSPRING_RETENTION_CURSORS, "
                "MAINSPRING_RETENTION_TOPICS"
            ),
        ),
        ("MAINSPRING_CLAIM_TIM", "x", "MAINSPRING_CLAIM_TIM is no option. Did you mean MAINSPRING_CLAIM_TIME?"),
        ("MAINSPRING_ULR", "x", "MAINSPRING_ULR is no option. Did you mean MAINSPRING_URL?"),
    ],
)
def test_a_variable_that_cannot_be_meant_is_named(variable: str, text: str, message: str, tmp_path: Path) -> None:
    around = read_environment({variable: text}, tmp_path)

    assert around.problems == (f"environment: {message}",)


def test_a_variable_like_no_other_is_answered_with_all_there_are(tmp_path: Path) -> None:
    (problem,) = read_environment({"MAINSPRING_XYZZY": "s3cret"}, tmp_path).problems

    assert problem.startswith("environment: MAINSPRING_XYZZY is no option. The options are MAINSPRING_APP, MAINSPRING_")
    assert "s3cret" not in problem


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("MAINSPRING_TEST_POSTGRES", "x"),
        ("MAINSPRING_SERVICE_HOST", "10.0.0.1"),
        ("MAINSPRING_SERVICE_PORT_HTTP", "80"),
        ("MAINSPRING_PORT", "tcp://10.0.0.1:80"),
        ("MAINSPRING_WEB_PORT_80_TCP_ADDR", "10.0.0.1"),
    ],
)
def test_variables_of_tests_and_of_kubernetes_are_no_options(variable: str, text: str, tmp_path: Path) -> None:
    assert read_environment({variable: text, "OTHER_GRACE": "x"}, tmp_path).problems == ()
    assert read_environment({"MAINSPRING_PORT": "80"}, tmp_path).problems != ()


def test_a_password_in_the_wrong_variable_is_not_repeated(tmp_path: Path) -> None:
    (problem,) = read_environment({"MAINSPRING_NAME": "postgresql://shop:s3c@ret@host/shop"}, tmp_path).problems

    assert problem.startswith("environment: MAINSPRING_NAME='postgresql://…@host/shop' has a '/'")


def test_a_url_is_no_configuration_file(tmp_path: Path) -> None:
    (problem,) = read_environment({"MAINSPRING_CONFIG": "postgresql://shop:s3cret@host/shop"}, tmp_path).problems

    assert problem == (
        "MAINSPRING_CONFIG is the path of a file, as in /etc/shop/mainspring.toml, not a URL: that goes into "
        "MAINSPRING_URL"
    )


def test_the_first_problem_is_raised_and_the_others_are_counted(tmp_path: Path) -> None:
    (tmp_path / "mainspring.toml").write_text("grase = 1\n")
    around = read_environment({"MAINSPRING_GRASE": "x"}, tmp_path)

    with pytest.raises(BadOption) as refused:
        around.check()

    assert str(refused.value) == (
        "environment: MAINSPRING_GRASE is no option. Did you mean MAINSPRING_GRACE? "
        "(and 1 more: `mainspring doctor` shows all)"
    )
