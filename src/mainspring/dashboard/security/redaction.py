"""Masking of secrets: fields with secret names, wherever they occur."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from mainspring.model.errors import BadOption
from mainspring.model.masking import DEEPEST, LONGEST, Masking
from mainspring.model.redaction import masked, named_values, private_keys, without_users

MASK = "•••"
REDACTED: tuple[str, ...] = (
    "*password*",
    "*passwd*",
    "*passphrase*",
    "*secret*",
    "*token*",
    "*authorization*",
    "*apikey*",
    "*accesskey*",
    "*credential*",
    "*privatekey*",
    "*cardnumber*",
    "*creditcard*",
    "cookie",
    "setcookie",
    "cvv",
    "cvc",
    "ssn",
    "pin",
    "pwd",
    "otp",
    "pass",
    "auth",
    "jwt",
    "bearer",
    "pan",
    "*sessionid*",
    "*signingkey*",
)
"""The names that are masked by default, ignoring case and separators. ``*`` matches anything; a name without one
matches as a whole, or as one word: ``customer_ssn``."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SEPARATORS = re.compile(r"[^a-z0-9*]")


class Redaction(Masking):
    """Masks values by the names of their fields, in payloads, headers and text, before they are sent."""

    mask: str = MASK

    def __init__(self, names: Iterable[str] = REDACTED) -> None:
        if isinstance(names, str):
            raise BadOption(f"redact={names!r} is one name: write a list of names, as in [*REDACTED, {names!r}]")
        self._names = tuple(names)
        self.hides_anything: bool = bool(self._names)
        plain = {_plain(each) for each in self._names}
        if any(not each.strip("*") for each in plain):
            raise BadOption("redact= has an empty name: write names of fields, such as 'iban' or '*email*'")
        self._whole = frozenset(each for each in plain if "*" not in each)
        globs = [tuple(each.split("*")) for each in sorted(plain) if "*" in each]
        # Nearly all patterns have a star at both ends, and are matched by one search.
        within = [each[1] for each in globs if len(each) == 3 and each[0] == each[2] == ""]  # noqa: PLR2004
        self._within = re.compile("|".join(map(re.escape, within))) if within else None
        self._globs = tuple(each for each in globs if each[1] not in within)
        self._known: dict[str, bool] = {}

    def __bool__(self) -> bool:
        """Return whether anything is masked."""
        return self.hides_anything

    def hides(self, name: str) -> bool:
        """Return whether a field of this name is masked."""
        name = name[:LONGEST]
        known = self._known.get(name)
        if known is None:
            known = self._hides(name)
            if len(self._known) < 4096:  # noqa: PLR2004 - names may be data, and unbounded
                self._known[name] = known
        return known

    def quoted(self, text: str) -> str:
        """Mask what a text within a value quotes; most texts have no sign of a name, and are searched no further."""
        return self.text(text) if any(sign in text for sign in (":", "=", "-----")) else text

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers with their secrets masked."""
        return {name: MASK if self.hides(name) else self.text(value) for name, value in headers.items()}

    def preview(self, text: str) -> str:
        """Return the beginning of a payload with its secrets masked: nothing that is masked in the payload is shown."""
        return f"{self.head(text[:-1])}…" if text.endswith("…") else self.head(text)

    def text(self, text: str) -> str:
        """Mask the values of fields that text quotes, as errors do, and passwords in URLs."""
        if self._names:
            text = masked(text, private_keys(text), MASK)
            text = masked(text, named_values(text, self.hides), MASK)
        return without_users(text, MASK)

    def _hides(self, name: str) -> bool:
        if not self._names:
            return False
        whole = _plain(name).replace("*", "")
        if whole in self._whole or (self._within is not None and self._within.search(whole)):
            return True
        if any(_fits(whole, each) for each in self._globs):
            return True
        return any(word.lower() in self._whole for word in _WORDS.findall(name))


def masked_at(value: Any, where: str = "payload", depth: int = 0) -> str | None:
    """Return where a value sent by a client contains a mask, or None."""
    if depth > DEEPEST:
        return None
    match value:
        case str():
            return where if MASK in value else None
        case dict():
            pairs: Iterable[tuple[object, Any]] = value.items()
        case list():
            pairs = enumerate(value)
        case _:
            return None
    for key, each in pairs:
        if isinstance(key, str) and MASK in key:
            return f"{where}.{key}"
        if (found := masked_at(each, f"{where}.{key}", depth + 1)) is not None:
            return found
    return None


def _fits(name: str, pieces: tuple[str, ...]) -> bool:
    """Return whether a name matches these pieces, with anything between them; greedy matching is sufficient."""
    first, *between, last = pieces
    if not (name.startswith(first) and name.endswith(last)) or len(name) < len(first) + len(last):
        return False
    start, end = len(first), len(name) - len(last)
    for piece in between:
        found = name.find(piece, start, end)
        if found < 0:
            return False
        start = found + len(piece)
    return True


def _plain(name: str) -> str:
    return _SEPARATORS.sub("", name.lower())
