"""The caller's identity, its role, and how it was authenticated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from starlette.requests import Request

Role = Literal["viewer", "operator"]
"""A viewer reads, an operator also acts."""

Way = Literal["nobody", "cookie", "bearer", "hook"]
"""How the sender is authenticated: not at all, by a login cookie, by a token, or by the host application."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A person or program, by its name in the audit log, and its role."""

    name: str
    role: Role
    ambient: bool = True
    """Whether browsers send its credentials automatically, as with cookies: changes then also need a CSRF token."""


Authenticate: TypeAlias = Callable[[Request], Awaitable[Identity | None]]
"""A hook of the host application: return the identity of the sender, or None if unknown."""


@dataclass(frozen=True, slots=True)
class Access:
    """The access rights of one request."""

    identity: Identity | None
    way: Way
    csrf: str | None = None
    """The CSRF token that a change must send; None if no credentials are sent automatically."""
    session: str | None = None
    """The id of the login, if there is one."""

    @property
    def role(self) -> Role | None:
        """The role; None: none."""
        return None if self.identity is None else self.identity.role

    @property
    def by(self) -> str:
        """The name in the audit log."""
        assert self.identity is not None, "anonymous callers change nothing"
        return f"{self.identity.name} (dashboard)"

    def may(self, role: Role | None) -> bool:
        """Return whether the role is sufficient; None is for all callers."""
        return role is None or self.role in ("operator", role)


NOBODY = Access(None, "nobody")
