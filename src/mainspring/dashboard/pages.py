"""The shell: the one page in which the browser draws every screen."""

from __future__ import annotations

import re
from html import escape

from starlette.requests import Request
from starlette.responses import Response

from mainspring.dashboard.answers import Problem
from mainspring.dashboard.assets import asset, build, tagged

PLACE = b"{{root}}"
"""What stands in the page where the path goes under which the dashboard is mounted."""
BUILD = b"{{build}}"
"""What stands in the addresses of its files where the name of this build goes."""
_ROOT = re.compile(r"(/[A-Za-z0-9._~%!$&'()*+,;=:@-]+)*")


def page_response(request: Request, root: str) -> Response:
    """The shell, for whatever page is asked for."""
    body = asset("index.html")
    if body is None:
        raise Problem(404, "not_found", "the dashboard's pages are not installed")
    placed = body.replace(BUILD, build().encode()).replace(PLACE, escape(root).encode())
    return tagged(request, placed, "text/html; charset=utf-8")


def checked_root(root: str) -> str:
    """``root`` if it is a path and nothing else: it is written into the page, and may come from a header."""
    root = root.rstrip("/")
    return root if _ROOT.fullmatch(root) and not root.startswith("//") and len(root) <= 200 else ""  # noqa: PLR2004
