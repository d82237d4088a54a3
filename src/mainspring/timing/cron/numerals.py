"""Values of a field in words: lists, runs and steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

RUN = 3
"""From this many on, a run is described by its first and last value."""
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth"}
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}
_TEENS = range(10, 20)


def values(mask: int) -> list[int]:
    """Return the bits that are set."""
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def runs(found: Sequence[int], size: int = 0) -> list[tuple[int, int]]:
    """Return the first and last of each run; with ``size`` the values are a circle and a run may wrap around."""
    rows: list[tuple[int, int]] = []
    for value in found:
        if rows and rows[-1][1] == value - 1:
            rows[-1] = (rows[-1][0], value)
        else:
            rows.append((value, value))
    if size and len(rows) > 1 and rows[0][0] == 0 and rows[-1][1] == size - 1:
        return [*rows[1:-1], (rows[-1][0], rows[0][1])]
    return rows


def pace(found: Sequence[int]) -> int:
    """Return the step between the values if it is constant and there are enough of them, else 0."""
    if len(found) < RUN:
        return 0
    step = found[1] - found[0]
    return step if all(after - before == step for before, after in pairwise(found)) else 0


def joined(words: Sequence[str], last: str = "and") -> str:
    """Join words: one, one and another; or one, another and a third."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def spans(rows: Sequence[tuple[int, int]], name: Callable[[int], str], size: int = 0) -> list[str]:
    """Describe each run: long ones by their ends, short ones by every value."""
    words: list[str] = []
    for low, high in rows:
        length = (high - low) % size if size else high - low
        if length + 1 >= RUN:
            words.append(f"{name(low)} through {name(high)}")
        else:
            words.extend(name((low + more) % size if size else low + more) for more in range(length + 1))
    return words


def nth(number: int) -> str:
    """Format in figures: 2nd, 3rd, 11th."""
    return f"{number}{'th' if number % 100 in _TEENS else _ENDINGS.get(number % 10, 'th')}"


def which(number: int) -> str:
    """Format in letters: first to fifth, and last for −1."""
    return _ORDINALS.get(number, "last")
