"""The HTML page in which the browser draws every screen."""

from __future__ import annotations

import re
from html import escape

from starlette.requests import Request
from starlette.responses import Response

from mainspring.dashboard.answers import Problem
from mainspring.dashboard.assets import asset, build, tagged

PLACE = b"{{root}}"
"""The placeholder in the page for the path of the mount."""
BUILD = b"{{build}}"
"""The placeholder in the URLs of its files for the name of the build."""
_ROOT = re.compile(r"(/[A-Za-z0-9._~%!$&'()*+,;=:@-]+)*")


def page_response(request: Request, root: str) -> Response:
    """Return the HTML page, the same for every path."""
    body = asset("index.html")
    if body is None:
        raise Problem(404, "not_found", "the dashboard's pages are not installed")
    placed = body.replace(BUILD, build().encode()).replace(PLACE, escape(root).encode())
    return tagged(request, placed, "text/html; charset=utf-8")


def checked_root(root: str) -> str:
    """Return ``root`` if it is a plain path: it is written into the page, and may come from a header."""
    root = root.rstrip("/")
    return root if _ROOT.fullmatch(root) and not root.startswith("//") and len(root) <= 200 else ""  # noqa: PLR2004
