"""Worker processes: started, frozen, told to stop, killed, and always ended with the test."""

import contextlib
import signal
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.faults.nursery import nursery
from tests.faults.plan import Plan
from tests.faults.tables import Tables
from tests.faults.waiting import PATIENCE, until


class Member:
    """One worker process."""

    def __init__(self, plan: Plan, log: Path, module: str = "tests.faults.worker") -> None:
        self.plan = plan
        self.log = log
        with log.open("wb") as output:
            self.process = nursery().start(module, plan.written(), output)
        self.pid = self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> float:
        """Kill −9 and wait for the end; answers when, by the monotonic clock."""
        at = time.monotonic()
        self.process.kill()
        self.process.wait(PATIENCE)
        return at

    def freeze(self) -> None:
        """Stop it where it is; it stands still when this returns."""
        self.process.send_signal(signal.SIGSTOP)
        while psutil.Process(self.pid).status() != psutil.STATUS_STOPPED:
            time.sleep(0.001)

    def thaw(self) -> float:
        self.process.send_signal(signal.SIGCONT)
        return time.monotonic()

    def ask_to_stop(self) -> float:
        self.process.send_signal(signal.SIGTERM)
        return time.monotonic()

    async def ended(self) -> int:
        """Wait for the end; answers the exit code."""
        await until(f"the end of worker {self.pid}\n{self.said()[-3000:]}", lambda: not self.alive)
        assert self.process.returncode is not None
        return self.process.returncode

    def said(self) -> str:
        """Everything it wrote to its log so far."""
        return self.log.read_text(errors="replace")

    def lines(self) -> list[str]:
        """The log, line by line."""
        return self.said().splitlines()


class Fleet:
    """The worker processes of one test."""

    def __init__(self, folder: Path, tables: Tables) -> None:
        self._folder = folder
        self._tables = tables
        self.members: list[Member] = []
        self.ever: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.ever:
            if member.alive:
                with contextlib.suppress(ProcessLookupError):
                    member.thaw()
                    member.kill()

    def start(self, plan: Plan) -> Member:
        """Start one process; it is not ready yet."""
        member = Member(plan, self._folder / f"worker-{len(self.ever)}.log")
        self.members.append(member)
        self.ever.append(member)
        return member

    async def ready(self, *members: Member) -> None:
        """Wait until these (all, when none are named) have put themselves on the roster."""
        awaited = list(members or self.members)
        pids = [member.pid for member in awaited]
        await until(f"workers {pids} on the roster", lambda: len(self.working(awaited)) == len(awaited))

    def working(self, members: list[Member]) -> list[Member]:
        """Those of them that are on the roster. One that ended by itself is an error, told with its last words."""
        for member in members:
            assert member.alive, f"worker {member.pid} ended by itself:\n{member.said()[-3000:]}"
        there = self._tables.roster()
        return [member for member in members if member.pid in there]

    def replace(self, member: Member, plan: Plan | None = None) -> Member:
        """Start a process in the place of one that has ended."""
        self.members.remove(member)
        return self.start(plan or member.plan)
