"""Operations: a script that a dialect writes once, run on its lane or returned as the script."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, cast, overload

from mainspring.storage.script import Script

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Owner = TypeVar("Owner", bound="Operations")

Lane = Literal["claim", "limited", "settle", "write", "read"]
"""Which connection: claiming and settling have their own, so that nothing lent to others can stop them. So have claims
under limits, which wait for each other."""

Now = datetime | None
"""The hand-set clock of tests. None in production: the database owns the clock."""


class Gateway(Protocol):
    """Runs a script as one transaction: all of it or none of it."""

    async def run(self, script: Script[R], lane: Lane) -> R:
        """Run the script and return its result. Driver errors are raised as StorageError or StorageUnavailable."""
        ...


class Clocked(Protocol):
    """Has the clock that tests set by hand."""

    @property
    def now(self) -> Now:
        """The time it is set to."""
        ...


@dataclass(slots=True)
class HandSet:
    """A clock that tests set by hand, and production leaves unset."""

    now: Now = None


class Nowhere:
    """A ``Gateway`` without a database, for scripts that only run on the caller's connection."""

    async def run(self, script: Script[R], lane: Lane) -> R:
        raise AssertionError(f"{script!r} for the lane {lane!r} has no database to run on: run it on the caller's")


class Operations:
    """Base class: its methods are operations, which run on a gateway and read the time from a clock."""

    def __init__(self, gateway: Gateway, clock: Clocked) -> None:
        self._gateway = gateway
        self._clock = clock

    @property
    def now(self) -> Now:
        """See ``Now``."""
        return self._clock.now


class Operation(Protocol[P, R_co]):
    """An operation: awaited, it runs on its lane; ``script`` makes the script and runs nothing.

    The script is for a transaction of the caller's, for a script that it is a part of, or for a test that counts round
    trips.
    """

    @property
    def script(self) -> Callable[P, Script[R_co]]:
        """Make the script."""
        ...

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:
        """Run it on its lane."""
        ...


def bound(script: Callable[P, Script[R]], gateway: Gateway, lane: Lane) -> Operation[P, R]:
    """Make an operation of a script, on a lane of this gateway."""
    run = gateway.run

    # A function and the gateway's own coroutine: nothing in between has to be looked up or awaited on a hot path.
    def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        return run(script(*args, **kwargs), lane)

    update_wrapper(call, script)
    vars(call)["script"] = script
    return cast("Operation[P, R]", call)


class Definition(Generic[Owner, P, R]):
    """A method that is a script, and the lane that it runs on. Read from an object, it is an ``Operation``."""

    def __init__(self, written: Callable[Concatenate[Owner, P], Script[R]], lane: Lane) -> None:
        self.__doc__ = written.__doc__
        self._written = written
        self._lane = lane

    def __set_name__(self, owner: type[Owner], name: str) -> None:
        """Remember the name of the attribute."""
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type[Owner]) -> Definition[Owner, P, R]: ...
    @overload
    def __get__(self, instance: Owner, owner: type[Owner]) -> Operation[P, R]: ...
    def __get__(self, instance: Owner | None, owner: type[Owner]) -> Definition[Owner, P, R] | Operation[P, R]:
        """Bind it to the object once: from then on the object's own attribute is found first."""
        if instance is None:
            return self
        written: Callable[P, Script[R]] = MethodType(self._written, instance)
        own = bound(written, instance._gateway, self._lane)  # noqa: SLF001 - of one file
        vars(instance)[self._name] = own
        return own


def operation(
    lane: Lane,
) -> Callable[[Callable[Concatenate[Owner, P], Script[R]]], Definition[Owner, P, R]]:
    """Make a method that is a script an operation on this lane.

    ``await mailbox.claim(wants, owner, hold)`` runs it, and ``mailbox.claim.script(wants, owner, hold)`` is the script.
    """

    def define(written: Callable[Concatenate[Owner, P], Script[R]]) -> Definition[Owner, P, R]:
        return Definition(written, lane)

    return define
