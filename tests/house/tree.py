"""The files of the project, as the house tests see them."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "mainspring"


def files(*rooms: str) -> Iterator[Path]:
    """Every written file of these rooms, relative to the root."""
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*")):
            relative = path.relative_to(ROOT)
            hidden = any(part.startswith(".") or part == "__pycache__" for part in relative.parts)
            if path.is_file() and not hidden:
                yield relative
