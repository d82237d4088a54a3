"""Who asks, what they may do, and by which way they are known."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from starlette.requests import Request

Role = Literal["viewer", "operator"]
"""A viewer looks, an operator also acts."""

Way = Literal["nobody", "cookie", "bearer", "hook"]
"""How the sender is known: not at all, by the cookie of a login, by a token sent along, or by the host application."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A person or program, as the audit log shall name it, and what it may do."""

    name: str
    role: Role
    ambient: bool = True
    """Whether browsers send by themselves what proves it, as they do with cookies: changes then need our token, too."""


Authenticate: TypeAlias = Callable[[Request], Awaitable[Identity | None]]
"""A hook of the host application: who sends this request; None for nobody it knows."""


@dataclass(frozen=True, slots=True)
class Access:
    """One request's right to be answered."""

    identity: Identity | None
    way: Way
    csrf: str | None = None
    """What a changing request must send along; None where nothing travels by itself."""
    session: str | None = None
    """The id of the login, where there is one."""

    @property
    def role(self) -> Role | None:
        """What it may do; None: nothing."""
        return None if self.identity is None else self.identity.role

    @property
    def by(self) -> str:
        """The name under which the audit log knows what is done."""
        assert self.identity is not None, "who is not known does nothing"
        return f"{self.identity.name} (dashboard)"

    def may(self, role: Role | None) -> bool:
        """Whether this much is allowed; None is for everybody."""
        return role is None or self.role in ("operator", role)


NOBODY = Access(None, "nobody")
