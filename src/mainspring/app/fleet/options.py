"""The options of a fleet's worker."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict, cast, get_args

from mainspring.app.options import choice, flag, given, length, refuse_unknown, whole
from mainspring.timing.duration import Duration

Order = Literal["round-robin", "drain-first"]
"""In which order databases with work have their turns, while others wait for one."""


class FleetWorkerOptions(TypedDict, total=False):
    """Options of ``fleet.worker()`` and ``fleet.run()``; None is the same as leaving an option out."""

    groups: Collection[str] | None
    """Serve only these groups, in every database [all]."""
    concurrency: int | None
    """How many messages may wait or run at once in one database [any number]."""
    most_open: int | None
    """How many databases have an ordinary worker at a time [20]."""
    idle: Duration | None
    """How long such a worker stays without anything to do ["10s"]."""
    longest_pause: Duration | None
    """How long an idle database is not looked at, at most ["15s"]."""
    order: Order | None
    """While databases wait for a turn: "round-robin", a busy one makes room; or "drain-first", not while it has work
    ["round-robin"]."""
    share: bool | None
    """Whether it divides the databases with the other workers that share [False]."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a fleet's worker works."""

    groups: tuple[str, ...] | None
    served: tuple[str, ...]
    """The groups that it serves."""
    concurrency: int | None
    most_open: int
    idle: timedelta
    longest_pause: timedelta
    order: Order
    share: bool


def read_worker_options(
    options: FleetWorkerOptions, served: Callable[[Collection[str] | None], tuple[str, ...]]
) -> WorkerOptions:
    """Check the options; ``served`` returns the groups that are meant. Raises BadOption, and Misuse if none is."""
    refuse_unknown(options, FleetWorkerOptions.__annotations__, "fleet.worker(…)")
    chosen: dict[str, Any] = given(options)
    groups = chosen.get("groups")
    return WorkerOptions(
        groups=None if groups is None else tuple(groups),
        served=served(groups),
        concurrency=chosen.get("concurrency"),
        most_open=whole(chosen.get("most_open", 20), "most_open", least=1, most=10_000),
        idle=length(chosen.get("idle", "10s"), "idle"),
        longest_pause=length(chosen.get("longest_pause", "15s"), "longest_pause"),
        order=cast("Order", choice(chosen.get("order", "round-robin"), get_args(Order), "order")),
        share=flag(chosen.get("share", False), "share"),
    )
