"""The answers of a NATS server to requests that were sent together."""

from __future__ import annotations

import asyncio
from typing import Any

Answer = dict[str, Any]
"""A reply of JetStream, with the ``subject`` it was asked at; what went wrong is in ``error``, as the server has it."""


class Answers:
    """What was answered to each of several requests, by its place: they are awaited together, with one future."""

    def __init__(self, count: int) -> None:
        self._by_place: list[Answer | None] = [None] * count
        self._left = count
        self._complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not count:
            self._complete.set_result(None)

    def put(self, place: int, answer: Answer) -> None:
        """Note an answer, unless there is one for this place."""
        if self._by_place[place] is None:
            self._by_place[place] = answer
            self._left -= 1
            if not self._left:
                self._complete.set_result(None)

    async def complete(self, within: float) -> bool:
        """Return whether all are there, within so many seconds."""
        done, _ = await asyncio.wait([self._complete], timeout=within)
        return bool(done)

    def found(self) -> list[Answer]:
        """Return those that are there, in the order of their places."""
        return [each for each in self._by_place if each is not None]
