"""Removes passwords and other secrets from text that may quote a user's input."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mainspring.model.quotes import named_values, private_keys

# A single slash is left of two if the URL was taken for a path. The library's own example is no secret.
_USER = re.compile(r""":/{1,2}(?!user:password@)[^\s:/'"]*:""")
_AT = re.compile("@")
_QUOTE = re.compile(r"""['"\n]""")
_SPACE = re.compile(r"\s")
_FARTHEST = 500
"""The maximum length of a password: the bound prevents a quadratic search in hostile text."""

_PARAMETER = re.compile(r"""(password=)[^\s&'"]+""", re.IGNORECASE)
_HIDDEN = re.compile(
    r"""(?: passw(?:or)?ds? | passphrase | secrets? | credentials? | authorization | cookie
          | (?:private|secret|api|access|signing)[_-]?key
          | (?:access|auth|api|bearer|csrf|id|refresh|session)[_-]?token )
    (?: [_-]?(?:hash|value|text|\d{1,3}) )? $""",
    re.VERBOSE | re.IGNORECASE,
)
_SUSPECTS = (
    *("passw", "passph", "secret", "credential", "authorization", "cookie", "token", "bearer"),
    *("_key", "-key", "apikey", "accesskey", "privatekey", "signingkey", "private key"),
)
"""Texts without any of these contain no secret: most lines are checked no further."""
_SAID = (
    # "token" is also an ordinary word: its value is hidden only if it clearly is one.
    re.compile(
        r"""(?<![\w-]) (?P<kept> token (?: = | \\{0,4}["'] \s{0,3} : \s{0,3} ) )
        (?: \\{0,4}" [^"\n]*+ "? | \\{0,4}' [^'\n]*+ '? | [^\s&'",;)}\]]++ )""",
        re.VERBOSE | re.IGNORECASE,
    ),
    re.compile(r"""(?P<kept>\bPASSWORD\s{1,3})'(?:[^'\\\n]|\\.|'')*+'?""", re.IGNORECASE),
    re.compile(r"(?P<kept>\bbearer\s{1,3})(?=[\w~+/-]{0,500}[\d._=])[\w.~+/=-]{6,}", re.IGNORECASE),
)
_LONG_USER = re.compile(r"(?<=://)[\w.~%-]{20,200}(?=@)")
"""Too long for a name: a token."""


def redacted(text: str, mask: str = "…") -> str:
    """Return the text with ``…`` for the user and password of every URL, and for values of secret fields."""
    text = without_users(text, mask)
    lowered = text.lower()
    if not any(each in lowered for each in _SUSPECTS):
        return text
    text = masked(text, private_keys(text), mask)
    text = masked(text, named_values(text, is_secret), mask)
    for pattern in _SAID:
        text = pattern.sub(rf"\g<kept>{mask}", text)
    return text


def without_users(text: str, mask: str = "…") -> str:
    """Return the text with ``…`` for the user and password of every URL, and for ``password=`` parameters."""
    if ":/" in text and "@" in text:
        text = _LONG_USER.sub(mask, _without_users(text, mask))
    return _PARAMETER.sub(rf"\1{mask}", text) if "password=" in text.lower() else text


def is_secret(name: str) -> bool:
    """Return whether a field of this name is secret: ``password``, ``PGPASSWORD``, ``x-api-key``."""
    return _HIDDEN.search(name[-_FARTHEST:]) is not None


def masked(text: str, spans: Iterable[tuple[int, int]], mask: str) -> str:
    """Return the text with a mask for each of these spans, which are in order."""
    parts: list[str] = []
    done = 0
    for start, end in spans:
        parts += (text[done:start], mask)
        done = end
    return "".join((*parts, text[done:])) if parts else text


def _without_users(text: str, mask: str) -> str:
    parts: list[str] = []
    start = done = 0
    at = quote = space = -1
    while (begun := _USER.search(text, start)) is not None:
        password = begun.end()
        # Each is searched once, not once per start before it.
        if at < password:
            at = _next(_AT, text, password)
        if quote < password:
            quote = _next(_QUOTE, text, password)
        if space < password:
            space = _next(_SPACE, text, password)
        # Up to the last @ within the same quotes: a password may contain any character; hide rather too much than too
        # little.
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
