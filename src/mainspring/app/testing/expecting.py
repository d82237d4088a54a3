"""The dead letters that a test expects."""

from __future__ import annotations

from dataclasses import dataclass, field

from mainspring.app.testing.values import Ran

Error = type[BaseException] | tuple[type[BaseException], ...] | str
"""What must have killed it: a type of exception, several, or text that its error contains."""


@dataclass(slots=True)
class Expectation:
    """Dead letters of this group, by this error; None: of any."""

    group: str | None
    error: Error | None
    seen: list[Ran] = field(default_factory=list)

    def takes(self, ran: Ran) -> bool:
        """Whether it is about this one; if so it is written down."""
        if self.group not in (None, ran.group) or not self._by_error(ran):
            return False
        self.seen.append(ran)
        return True

    def __str__(self) -> str:
        """As part of a sentence."""
        of = f" of {self.group}" if self.group else ""
        if self.error is None:
            return of
        if isinstance(self.error, str):
            return f"{of} that says {self.error!r}"
        kinds = self.error if isinstance(self.error, tuple) else (self.error,)
        return f"{of} by {' or '.join(kind.__qualname__ for kind in kinds)}"

    def _by_error(self, ran: Ran) -> bool:
        if self.error is None:
            return True
        if isinstance(self.error, str):
            return self.error in (ran.error or "")
        return isinstance(ran.exception, self.error)
