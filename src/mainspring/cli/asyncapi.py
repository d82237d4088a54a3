"""``mainspring asyncapi``: the AsyncAPI document of an app."""

from __future__ import annotations

import sys

from mainspring.cli.output import print_json
from mainspring.cli.target import OfApp, Spec, application

_EMPTY = "The document is empty: the app has no consumers, queues, message types, routes or intakes."


async def asyncapi(app: Spec | None = None, /, *, named: OfApp = None) -> None:
    """Print an AsyncAPI 3.0 document of what the app sends, reads and handles, as JSON; connects to nothing."""
    _, target = application(app, named)
    document = await target.code().brokers.asyncapi()
    print_json(document)
    if "channels" not in document:
        sys.stderr.write(f"{_EMPTY}\n")
