"""A user's tests of schedules: weeks over clock changes, without waiting for any of it, under either async plugin."""

from pathlib import Path
from shutil import copyfile

import pytest

from tests.integration.testing.runs import PLUGINS, run_pytest

PROJECT = Path(__file__).parent / "project"
TESTS = [
    "test_a_failed_report_is_tried_again_and_stays_the_one_of_that_day",
    "test_a_sweep_that_takes_long_is_not_joined_by_others",
    "test_all_of_it_works_without_a_loop",
    "test_an_operator_pauses_resumes_alters_and_triggers",
    "test_once_runs_once_and_backfill_makes_up_for_a_week",
    "test_the_report_comes_once_on_the_long_day_in_autumn",
    "test_the_report_follows_the_clocks_in_spring",
]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_weeks_of_schedules_pass_without_waiting(tmp_path: Path, plugin: str) -> None:
    copyfile(PROJECT / "clinic.py", tmp_path / "clinic.py")
    copyfile(PROJECT / "clinic_tests.py", tmp_path / "test_clinic.py")

    report = run_pytest(tmp_path, plugin, "mainspring_app = clinic:app")

    assert report.status == 0, report.output
    assert sorted(report.seconds) == TESTS
    total = sum(report.seconds.values())
    print(f"\nunder {plugin}: {len(report.seconds)} tests of weeks of schedules in {total:.3f} s of wall time")
    assert total < 30  # weeks, on however busy a machine
    assert "sleep" not in (tmp_path / "test_clinic.py").read_text()
