"""The roles of a database: what each of them is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

Role = Literal["publish", "work", "read", "operate", "migrate"]
"""What a role of the database may do; ``mainspring grants`` prints its rights."""

ROLES: tuple[Role, ...] = get_args(Role)

Lacking = Mapping[Role, Sequence[str]]
"""What a role of the database lacks to be each of these, as statements that grant it. Empty if there are no roles."""


def lacking_for(lacking: Lacking, *, works: bool) -> Sequence[str]:
    """Return what a process lacks. With workers it needs all that they do; without, it may be any one of the roles.

    A role that is none of them lacks least of the one that it is closest to.
    """
    if works:
        return lacking.get("work", ())
    return min(lacking.values(), key=len, default=())


def held(lacking: Lacking) -> list[Role]:
    """Return the roles of which nothing is lacking."""
    return [role for role, missing in lacking.items() if not missing]
