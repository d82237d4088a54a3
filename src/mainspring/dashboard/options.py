"""The options of a dashboard, and what they make: who may see what, and where it is served."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from starlette.types import Scope

from mainspring.app.options import given, refuse_unknown
from mainspring.dashboard.pages import checked_root, prefix_of
from mainspring.dashboard.security.gate import Gate
from mainspring.dashboard.security.identity import (
    MAKING,
    Attempts,
    Authenticate,
    Role,
    Sessions,
    Tokens,
    environment_tokens,
)
from mainspring.dashboard.security.redaction import REDACTED, Redaction
from mainspring.model.errors import BadOption
from mainspring.model.health import HealthLimits

_SECRET = "MAINSPRING_DASHBOARD_SECRET"  # noqa: S105 - the name of a variable


class DashboardOptions(TypedDict, total=False):
    """Options of ``Dashboard`` and ``FleetDashboard``; None is the same as leaving an option out."""

    tokens: Mapping[Role, str] | None
    """By role, "operator" and "viewer" [MAINSPRING_DASHBOARD_OPERATOR_TOKEN and …_VIEWER_TOKEN]."""
    authenticate: Authenticate | None
    """For host applications with their own login: takes the request and returns an Identity, or None."""
    redact: Iterable[str] | None
    """The names of fields whose values are masked [REDACTED]."""
    hosts: Iterable[str] | None
    """The host names to accept, beside those of this machine [any]."""
    root_path: str | None
    """The prefix that a proxy strips."""
    trust_proxy: bool | None
    """Whether to trust X-Forwarded-Host, -Proto, -For and -Prefix [no]."""
    secret: str | None
    """A part of the keys of logins [MAINSPRING_DASHBOARD_SECRET]."""
    limits: HealthLimits | None
    """The thresholds of health [those of ``app.health``]."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may see what of a dashboard, and where it is served."""

    gate: Gate
    redaction: Redaction
    root: str | None
    """The prefix that a proxy strips, if it is told by an option."""
    limits: HealthLimits | None

    def prefix(self, scope: Scope) -> str:
        """Return the path of the dashboard as the browser sees it."""
        if self.root is not None:
            return checked_root(self.root)
        sent = dict(scope["headers"]).get(b"x-forwarded-prefix", b"") if self.gate.trust_proxy else b""
        return checked_root(sent.decode("latin-1").rstrip("/") + prefix_of(scope))


def read_options(options: DashboardOptions, caller: str) -> Policy:
    """Check the options of ``caller``, as in "Dashboard(app)". Raises BadOption."""
    refuse_unknown(options, DashboardOptions.__annotations__, f"{caller[:-1]}, …)")
    chosen: dict[str, Any] = given(options)
    tokens, authenticate, root, hosts = map(chosen.get, ("tokens", "authenticate", "root_path", "hosts"))
    if tokens is not None and authenticate is not None:
        raise BadOption("tokens= and authenticate= are both given: omit one")
    if root is not None and root.rstrip("/") != checked_root(root):
        raise BadOption(f"root_path={root!r} must be a path such as '/ops'")
    if isinstance(hosts, str):
        raise BadOption(f"hosts={hosts!r} is one name: write a list of names, as in [{hosts!r}]")
    if authenticate is not None:
        tokens = {}
    known = Tokens(environment_tokens() if tokens is None else tokens)
    if authenticate is None and not known:
        raise BadOption(_no_authentication(caller))
    sessions = Sessions(known, chosen.get("secret") or os.environ.get(_SECRET))
    allowed = None if hosts is None else tuple(hosts)
    gate = Gate(known, sessions, Attempts(), authenticate, allowed, chosen.get("trust_proxy", False))
    return Policy(gate, Redaction(chosen.get("redact", REDACTED)), root, chosen.get("limits"))


def _no_authentication(caller: str) -> str:
    open_call = f"{caller[:-1]}, "
    return (
        f"{caller} has no authentication, so that behind a proxy anyone could open it: set "
        f"MAINSPRING_DASHBOARD_OPERATOR_TOKEN ({MAKING}), or write {open_call}tokens={{'operator': '…', 'viewer': "
        f"'…'}}) or {open_call}authenticate=…). On your own machine, `mainspring dashboard` generates a token for each "
        "run"
    )
