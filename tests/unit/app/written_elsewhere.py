"""What another module derives from, with annotations that mean something only here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from mainspring import Depends


def rate() -> float:
    return 0.2


@dataclass
class Rated:
    share: Annotated[float, Depends(rate)]


@dataclass
class Listed:
    kind: type

    def __call__(self, order: Unknown) -> None: ...  # type: ignore[name-defined]  # noqa: F821
