"""The HTML page in which the browser draws every screen, its static files, and the prefix of a mounted application."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from mainspring.dashboard.responses import Problem

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "svg": "image/svg+xml",
}
# A plain file name: no separator, not hidden, nothing that leads upwards.
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,100}")
_DEEPEST = 6
_BUILD = re.compile(r"[0-9a-f]{16}")
_KEPT = "max-age=31536000, immutable"
_REVALIDATED = "no-cache"
PLACE = b"{{root}}"
"""The placeholder in the page for the path of its screens."""
HOME_PLACE = b"{{home}}"
"""The placeholder for the path of the whole dashboard, which differs on the pages of a fleet's database."""
BUILD = b"{{build}}"
"""The placeholder in the URLs of its files for the name of the build."""
_ROOT = re.compile(r"(/[A-Za-z0-9._~%!$&'()*+,;=:@-]+)*")


def path_of(scope: Scope) -> str:
    """Return the path below the mount; some servers and frameworks leave the prefix in ``path``, others strip it."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    # A proxy's prefix in root_path precedes the mount's own and need not be in the path.
    within = root.removeprefix(scope.get("app_root_path", "").rstrip("/"))
    for prefix in (root, within):
        if prefix and (path == prefix or path.startswith(f"{prefix}/")):
            path = path[len(prefix) :]
            break
    # Some add a trailing slash; no path of the dashboard has one.
    return "/" + path.strip("/")


def prefix_of(scope: Scope) -> str:
    """Return the prefix of the dashboard as the browser sees it."""
    root: str = scope.get("root_path", "").rstrip("/")
    if root:
        return root
    # Some frameworks only shorten the path. The raw path still has what they stripped.
    sent = unquote_to_bytes(scope.get("raw_path") or b"").decode("utf-8", "replace")
    path = scope["path"].rstrip("/")
    return sent.rstrip("/").removesuffix(path) if path else sent.rstrip("/")


@functools.cache
def build() -> str:
    """Return a fingerprint of all files; it is part of their URLs, so that browsers fetch each once."""
    digest = hashlib.sha256()
    for name, body in sorted(_files(_static(), "")):
        digest.update(f"{name} {len(body)} ".encode() + body)
    return digest.hexdigest()[:16]


def asset(path: str) -> bytes | None:
    """Return the file of this path, or None."""
    names = path.split("/")
    if len(names) > _DEEPEST or not all(_NAME.fullmatch(name) for name in names):
        return None
    place = _static()
    for name in names:
        place = place.joinpath(name)
    return place.read_bytes() if place.is_file() else None


def asset_response(request: Request, path: str) -> Response:
    """Return the file; browsers cache it permanently if the URL names this build.

    During a rollout, a page of one release requests files from the other: it gets that release's, not to be cached.
    """
    first, _, rest = path.partition("/")
    if _BUILD.fullmatch(first):
        path = rest
    kind = _TYPES.get(path.rpartition(".")[2])
    body = None if kind is None else asset(path)
    if body is None or kind is None:
        raise Problem(404, "not_found", "no such file")
    return tagged(request, body, kind, _KEPT if first == build() else _REVALIDATED)


def tagged(request: Request, body: bytes, kind: str, keeping: str = _REVALIDATED) -> Response:
    """Return a response with an ETag, or 304 if the browser has it."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": keeping}
    cached = {each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")}
    if tag in cached:
        return Response(status_code=304, headers=headers)
    return Response(body, headers={**headers, "Content-Type": kind})


def _static() -> Traversable:
    return files("mainspring.dashboard").joinpath("static")


def _files(place: Traversable, within: str) -> Iterator[tuple[str, bytes]]:
    for each in place.iterdir():
        if each.is_dir():
            yield from _files(each, f"{within}{each.name}/")
        else:
            yield f"{within}{each.name}", each.read_bytes()


def page_response(request: Request, root: str, home: str) -> Response:
    """Return the HTML page, the same for every path below ``root``; its files are below ``home``."""
    body = asset("index.html")
    if body is None:
        raise Problem(404, "not_found", "the dashboard's pages are not installed")
    placed = body.replace(BUILD, build().encode())
    placed = placed.replace(PLACE, escape(root).encode()).replace(HOME_PLACE, escape(home).encode())
    return tagged(request, placed, "text/html; charset=utf-8")


def checked_root(root: str) -> str:
    """Return ``root`` if it is a plain path: it is written into the page, and may come from a header."""
    root = root.rstrip("/")
    return root if _ROOT.fullmatch(root) and not root.startswith("//") and len(root) <= 200 else ""  # noqa: PLR2004
