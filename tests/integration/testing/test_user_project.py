from pathlib import Path

import pytest

from tests.integration.testing.runs import PLUGINS, run_pytest

TESTS = [
    "test_all_of_it_works_without_a_loop",
    "test_the_carrier_is_asked_again",
    "test_the_reminder_comes_a_day_later",
    "test_what_was_given_up_is_revived",
    "test_who_has_paid_is_not_reminded",
]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_delayed_retried_buried_and_revived_in_less_than_a_second(project: Path, plugin: str) -> None:
    report = run_pytest(project, plugin)

    assert report.status == 0, report.output
    assert sorted(report.seconds) == TESTS
    total = sum(report.seconds.values())
    print(f"\nunder {plugin}: {len(report.seconds)} tests of days of work in {total:.3f} s of wall time")
    assert total < 1.0
    assert "sleep" not in (project / "test_bakery.py").read_text()
