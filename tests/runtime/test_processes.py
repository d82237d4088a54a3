"""Handlers in processes: they answer, they are used again, and they die alone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from mainspring.timing.backoff import RetryPolicy, intervals
from tests.runtime.computing import Jammed
from tests.runtime.spawned import MINUTE, handler, lives, outcomes, pids, publish
from tests.runtime.stage import Stage


@pytest.mark.parametrize(
    ("qualname", "expected"),
    [
        ("return_anything", ("done", None)),
        ("measure", ("done", "2 bytes of application/json")),
        ("snooze", ("snoozed", "not yet")),
        ("cancel", ("cancelled", "obsolete")),
        ("bury", ("dead", "no such tray")),
        ("retry", ("dead", "no paper")),  # the policy has one attempt
        ("shrug_off_signals", ("done", "still here")),
        ("fail", ("dead", "Jammed: no paper left")),
        ("leave_by_exit", ("dead", "SystemExit: enough")),
        ("segfault", ("dead", "ProcessDied: the process was killed by SIGSEGV")),
        ("leave", ("dead", "ProcessDied: the process ended with exit code 3")),
        (
            "run_out_of_memory",
            ("dead", "ProcessDied: the process was killed by SIGKILL, as the system does when it runs out of memory"),
        ),
        ("no_such_function", ("dead", "KeyError: 'no_such_function'")),
    ],
)
async def test_what_a_function_does_in_its_process_is_the_verdict(
    stage: Stage, qualname: str, expected: tuple[str, str | None]
) -> None:
    await publish(stage, {})

    assert await outcomes(stage, handler(qualname)) == [expected]


async def test_a_large_payload_arrives_whole(stage: Stage) -> None:
    await publish(stage, "x" * (256 * 1024 - 2))

    assert await outcomes(stage, handler("measure")) == [("done", "262144 bytes of application/json")]


async def test_the_traceback_is_that_of_the_function(stage: Stage) -> None:
    await publish(stage, {})
    await outcomes(stage, handler("fail"))

    [run] = await stage.runs()
    assert run.traceback is not None
    assert 'raise Jammed("no paper left")' in run.traceback
    assert run.kind == "error"


@pytest.mark.parametrize(
    ("policy", "statuses"),
    [
        (intervals(0), ["failed", "dead"]),
        (intervals(0, retry_on=(Jammed,)), ["failed", "dead"]),
        (intervals(0, retry_on=(OSError,)), ["failed", "dead"]),
        (intervals(0, retry_on=(ValueError,)), ["dead"]),
        (intervals(0, give_up_on=(OSError,)), ["dead"]),
        (intervals(0, give_up_on=(ConnectionError,)), ["failed", "dead"]),
    ],
)
async def test_the_policy_knows_the_exceptions_of_the_process(
    stage: Stage, policy: RetryPolicy, statuses: list[str]
) -> None:
    await publish(stage, {})

    ended = await outcomes(stage, handler("fail", retry=policy), len(statuses))

    assert [status for status, _ in ended] == statuses


async def test_a_process_that_died_is_replaced_and_the_message_tried_again(stage: Stage) -> None:
    await publish(stage, {})

    ended = await outcomes(stage, handler("segfault_at_first", retry=intervals(0)), 2)

    assert ended == [("failed", "ProcessDied: the process was killed by SIGSEGV"), ("done", "attempt 2")]


async def test_a_process_serves_one_message_after_another(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    await publish(stage, *[{"file": str(file)}] * 5)

    async with stage.worker(handler("note_pid")):
        numbers = await pids(stage, file, 5)

    assert len(set(numbers)) == 1


async def test_a_process_that_dies_in_its_sleep_fails_no_message(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "pids"
    await publish(stage, {"file": str(file)})
    async with stage.worker(handler("note_pid")):
        await stage.until(stage.empty)
        [first] = await pids(stage, file)
        psutil.Process(first).kill()
        await stage.until(lambda: not lives(first))
        await publish(stage, {"file": str(file)})
        await stage.until(stage.empty)

    assert len(set(await pids(stage, file, 2))) == 2
    assert [run.status for run in await stage.runs()] == ["done", "done"]


async def test_the_time_to_import_is_not_the_handlers(stage: Stage) -> None:
    await publish(stage, {})

    assert await outcomes(stage, handler("found_late", timeout=timedelta(seconds=2))) == [("done", None)]


async def test_a_process_that_never_gets_ready_is_killed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.runtime.processes.STARTUP", 0.4)
    await publish(stage, {})

    [(status, said)] = await outcomes(stage, handler("found_late"))

    assert status == "dead"
    assert said == "ProcessDied: the process was killed: it had not imported tests.runtime.computing after 0.4 s"


async def test_the_handler_knows_how_long_it_has(stage: Stage) -> None:
    await publish(stage, {})

    [(status, said)] = await outcomes(stage, handler("time_left", timeout=MINUTE))

    assert status == "done"
    assert said is not None
    assert 30 < int(said.removesuffix(" s")) <= 60


async def test_a_death_is_noticed_although_a_fork_keeps_the_channel_open(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.runtime.processes._CHECK_EVERY", 0.1)
    file = tmp_path / "pids"
    await publish(stage, {"file": str(file)})

    ended = await outcomes(stage, handler("leave_a_fork_behind"))

    assert ended == [("dead", "ProcessDied: the process ended with exit code 4")]
    left = await pids(stage, file)
    await stage.until(lambda: not any(map(lives, left)))  # told to die, and the system takes its time


async def test_what_is_no_answer_is_refused_and_the_process_killed(stage: Stage) -> None:
    await publish(stage, {})

    [(status, said)] = await outcomes(stage, handler("talk_nonsense"))

    assert status == "dead"
    assert said is not None
    assert said.startswith("ProcessDied: the process sent an invalid response, and was killed")


async def test_the_loop_goes_on_while_a_process_computes(stage: Stage, tmp_path: Path) -> None:
    file, told = tmp_path / "pids", tmp_path / "told"
    await publish(stage, *[{"file": str(file), "until": str(told), "more": "x" * 200_000}] * 2)

    async with stage.worker(handler("compute_until_told", concurrency=2)):
        # They compute until this loop has told them: if they kept it from going on, neither would ever end.
        assert len(set(await pids(stage, file, 2))) == 2
        told.touch()
        await stage.until(stage.empty)

    assert [run.status for run in await stage.runs()] == ["done", "done"]
