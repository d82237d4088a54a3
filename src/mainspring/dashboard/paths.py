"""Where a mounted application stands: the prefix that others have put before it, and the path that is left."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from starlette.types import Scope


def path_of(scope: Scope) -> str:
    """The path below the mount; servers and frameworks leave the prefix in ``path``, or take it off."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    # A proxy's prefix, which an application was told of, is before the mount's own and need not be in the path.
    within = root.removeprefix(scope.get("app_root_path", "").rstrip("/"))
    for prefix in (root, within):
        if prefix and (path == prefix or path.startswith(f"{prefix}/")):
            path = path[len(prefix) :]
            break
    # Some also add a slash at the end; no path of ours has one.
    return "/" + path.strip("/")


def prefix_of(scope: Scope) -> str:
    """The prefix under which the browser finds it."""
    root: str = scope.get("root_path", "").rstrip("/")
    if root:
        return root
    # Some frameworks only shorten the path. How it was sent still tells what they took off.
    sent = unquote_to_bytes(scope.get("raw_path") or b"").decode("utf-8", "replace")
    path = scope["path"].rstrip("/")
    return sent.rstrip("/").removesuffix(path) if path else sent.rstrip("/")
