"""The versions of one message type: which is current, and the upcasters that lead to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mainspring.model.errors import Unreadable
from mainspring.storage.codec.contract import JSON, stamped
from mainspring.storage.codec.errors import told

Upcaster = Callable[[Any], Any]
"""From the values of one version to those of the next."""


class Step(NamedTuple):
    """One upcaster, the version that it reads, and what people call it."""

    version: int
    function: Upcaster
    name: str


class Versions:
    """The current version of a type, and the chains of upcasters from older ones.

    A chain is put together when an upcaster registers, never when a message is delivered.
    """

    def __init__(self, name: str, media: str = JSON, current: int = 1) -> None:
        self.name: str = name
        self.media: str = media
        self.current: int = current
        self.content_type: str = stamped(media, current)
        self._steps: dict[int, Step] = {}
        self._chains: dict[int, tuple[Step, ...]] = {}

    def step(self, version: int) -> Step | None:
        """The upcaster from this version to the next one."""
        return self._steps.get(version)

    def add(self, step: Step) -> None:
        """Take an upcaster."""
        self._steps[step.version] = step
        self._chains = {version: self._chain(version) for version in self._steps}

    @property
    def missing(self) -> int | None:
        """The version at which the chain from the oldest upcaster breaks; None when it leads to the current one."""
        oldest = min(self._steps, default=self.current)
        return next((version for version in range(oldest, self.current) if version not in self._steps), None)

    def upcast(self, values: Any, version: int) -> Any:
        """Bring the values of an older version up to the current one. Raises Unreadable, naming the upcaster."""
        chain = self._chains.get(version)
        if not chain:
            raise Unreadable(
                f"version {version} of {self.name} is older than any upcaster, and {self.current} is current: write "
                f"@app.upcaster({self.name}, {version})"
            )
        for _, function, name in chain:
            try:
                values = function(values)
            except Exception as error:
                raise Unreadable(
                    f"upcaster {name} failed on a message of {self.name}, version {version}: {told(error)}"
                ) from error
            if values is None:
                raise Unreadable(
                    f"upcaster {name} returned None for a message of {self.name}, version {version}: it must return "
                    "the next version, also where it has only changed what it was given"
                )
        return values

    def newer(self, version: int) -> Unreadable:
        """The complaint about a version that the code here does not know yet."""
        return Unreadable(
            f"version {version} of {self.name} is newer than version {self.current}, the newest known here: a worker "
            "with newer code can read it"
        )

    def _chain(self, version: int) -> tuple[Step, ...]:
        steps = range(version, self.current)
        # With a hole in it, it leads nowhere; a worker that finds one missing does not start.
        return tuple(self._steps[each] for each in steps) if all(each in self._steps for each in steps) else ()
