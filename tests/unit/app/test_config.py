from datetime import timedelta

import pytest

from mainspring.app.config import Options
from mainspring.app.options import nearest
from mainspring.model.errors import BadOption
from mainspring.model.retention import Retention


def test_the_defaults_are_the_documented_ones() -> None:
    assert Options.read({}) == Options(
        name="app",
        namespace=None,
        schema="mainspring",
        auto_migrate=False,
        payload_limit=262_144,
        claim_time=timedelta(seconds=30),
        grace=timedelta(seconds=25),
        idle_poll=timedelta(seconds=5),
        timeout=timedelta(minutes=30),
        keep="failures",
        preset="production",
        retention=Retention(),
        pool_size=4,
    )


def test_options_are_read_as_they_are_written() -> None:
    options = Options.read({"name": "shop", "namespace": "staging", "claim_time": "1m", "keep": "none", "pool_size": 9})

    assert options.name == "shop"
    assert options.tables == "mainspring-staging"
    assert options.claim_time == timedelta(minutes=1)
    assert options.keep == "none"
    assert options.pool_size == 9


def test_none_is_the_same_as_leaving_an_option_out() -> None:
    assert Options.read({"name": None, "grace": None, "preset": None}) == Options()


def test_development_keeps_every_run_for_a_day_and_makes_its_tables() -> None:
    options = Options.read({"preset": "development"})

    assert options == Options(
        preset="development", auto_migrate=True, keep="all", retention=Retention(done=timedelta(days=1))
    )


def test_production_changes_no_default() -> None:
    assert Options.read({"preset": "production"}) == Options()


def test_an_option_given_wins_over_the_preset() -> None:
    options = Options.read({"preset": "development", "keep": "none", "auto_migrate": False, "retention": Retention()})

    assert (options.keep, options.auto_migrate, options.retention) == ("none", False, Retention())


def test_every_value_says_where_it_is_from() -> None:
    options = Options.read({"preset": "development", "grace": "25s", "keep": None})

    assert {name: source for name, source in options.sources.items() if source != "default"} == {
        "preset": "argument",
        "grace": "argument",
        "auto_migrate": "preset development",
        "keep": "preset development",
        "retention.done": "preset development",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"claim_tim": "1s"},
            (
                "Mainspring(…) has no option 'claim_tim'. Did you mean 'claim_time'? It accepts auto_migrate, "
                "claim_time, dead, durable, grace, handler_pool, idle_poll, keep, misfire_after, name, namespace, "
                "newer_wait, payload_limit, pool_size, preset, recurring_timeout, require_tls, retention, retry, "
                "schema, timeout, tracing, version, worker_concurrency"
            ),
        ),
        ({"name": ""}, "name must be 1 to 200 characters, not 0: ''"),
        ({"name": "a/b"}, "name='a/b' has a '/': use '.', '-' or '_'"),
        ({"preset": "dev"}, "preset='dev' is not one of 'production', 'development'."),
        ({"keep": "failure"}, "keep='failure' is not one of 'all', 'failures', 'none'. Did you mean 'failures'?"),
        ({"keep": 3}, "keep=3 is not one of 'all', 'failures', 'none'."),
        ({"auto_migrate": "yes"}, "auto_migrate='yes' must be True or False"),
        ({"payload_limit": "1MB"}, "payload_limit='1MB' must be a whole number from 1 to 1,073,741,824"),
        ({"payload_limit": 0}, "payload_limit=0 must be a whole number from 1 to 1,073,741,824"),
        ({"pool_size": True}, "pool_size=True must be a whole number from 1 to 1,000"),
        ({"claim_time": "1s"}, "claim_time='1s' is out of bounds: it must be between 2s and 1d"),
        ({"claim_time": 30}, "claim_time=30 has no unit: write a timedelta or text like '30s', '15m', '1h30m', '2d'"),
        (
            {"grace": "soon"},
            "grace='soon' is not a duration: write text like '30s', '15m', '1h30m', '500ms', '2d'",
        ),
        ({"idle_poll": "0s"}, "idle_poll='0s' is out of bounds: it must be between 10ms and 5m"),
        ({"timeout": "0s"}, "timeout='0s' is out of bounds: it must be at least 1ms"),
        (
            {"retention": "7d"},
            "retention='7d' must be a Retention(…), as in Retention(done=timedelta(days=1))",
        ),
    ],
)
def test_an_option_that_cannot_be_meant_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(BadOption) as refused:
        Options.read(options)

    assert str(refused.value) == message


@pytest.mark.parametrize(("word", "near"), [("tow", "two"), ("dialy", "daily"), ("mail", None), ("", None)])
def test_a_word_that_is_far_off_is_no_suggestion(word: str, near: str | None) -> None:
    assert nearest(word, ["daily", "two"]) == near
