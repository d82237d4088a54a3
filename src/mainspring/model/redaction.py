"""Text that may quote what a user typed, without the password of a URL in it."""

from __future__ import annotations

import re

# One slash is what is left of two where the URL was taken for a path. Our own example is no secret.
_USER = re.compile(r""":/{1,2}(?!user:password@)[^\s:/'"]*:""")
_AT = re.compile("@")
_QUOTE = re.compile(r"""['"\n]""")
_SPACE = re.compile(r"\s")
_PARAMETER = re.compile(r"""(password=)[^\s&'"]+""", re.IGNORECASE)
_FARTHEST = 500
"""How far from its beginning a password ends: the bound keeps hostile text from costing a quadratic search."""


def redacted(text: str, mask: str = "…") -> str:
    """The text with ``…`` in place of the user and password of every URL, and of ``password=`` parameters."""
    if ":/" in text and "@" in text:
        text = _without_users(text, mask)
    return _PARAMETER.sub(rf"\1{mask}", text)


def _without_users(text: str, mask: str) -> str:
    parts: list[str] = []
    start = done = 0
    at = quote = space = -1
    while (begun := _USER.search(text, start)) is not None:
        password = begun.end()
        # Each of them is looked for once, not once for everything that begins before it.
        if at < password:
            at = _next(_AT, text, password)
        if quote < password:
            quote = _next(_QUOTE, text, password)
        if space < password:
            space = _next(_SPACE, text, password)
        # Up to the last @ within the same quotes: a password may hold any character, and too much is better hidden
        # than too little.
        end = quote if at < quote else space
        if not at < min(end, password + _FARTHEST + 1):
            start = password - 1  # its last colon may be the first of another
            continue
        parts += (text[done : begun.start()], "://", mask, "@")
        start = done = text.rindex("@", password, min(end, password + _FARTHEST + 1)) + 1
    return "".join((*parts, text[done:]))


def _next(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.search(text, start)
    return len(text) if found is None else found.start()
