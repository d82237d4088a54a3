"""From the arguments of an app, and what is set around it, to its options and its database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mainspring.app.config import Options
from mainspring.app.options import Setting
from mainspring.app.sources import URL, Surroundings, look_around
from mainspring.app.storages import Address, read_url
from mainspring.model.errors import BadOption


def configure(
    url: object, arguments: Mapping[str, object], around: Surroundings | None = None
) -> tuple[Options, Address]:
    """Read everything once; an argument wins over the environment, that over the file, that over preset and defaults.

    Raises BadOption for the first thing that cannot be meant, wherever it stands, used or not.
    """
    around = look_around() if around is None else around
    name = arguments.get("name")
    options = Options.read(arguments, *around.layers(name))
    around.check()
    set_at = Setting(url, "argument") if url is not None else around.url(name)
    if set_at is None:
        raise BadOption(
            f"no database is named: write Mainspring('sqlite:///shop.db'), set {URL}, or put a line "
            'url = "sqlite:///shop.db" into mainspring.toml (or below [tool.mainspring] of pyproject.toml)'
        )
    return replace(options, sources={"url": set_at.source, **options.sources}), read_address(set_at)


def read_address(setting: Setting) -> Address:
    """Read a URL; the error names the place it was set at, and nothing of what it holds."""
    try:
        return read_url(setting.value)
    except BadOption as error:
        raise BadOption(str(error) if setting.source == "argument" else f"{setting.source}: {error}") from None
