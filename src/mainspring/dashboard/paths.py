"""The prefix of a mounted application, and the path below it."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from starlette.types import Scope


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
