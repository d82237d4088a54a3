"""Removes passwords and other secrets from text that may quote a user's input."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

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
_OTHERS = (
    # "token" is also an ordinary word: its value is hidden only if it clearly is one.
    re.compile(
        r"""(?<![\w-]) (?P<kept> token (?: = | \\{0,4}["'] \s{0,3} : \s{0,3} ) )
        (?: \\{0,4}" [^"\n]*+ "? | \\{0,4}' [^'\n]*+ '? | [^\s&'",;)}\]]++ )""",
        re.VERBOSE | re.IGNORECASE,
    ),
    re.compile(r"""(?P<kept>\bPASSWORD\s{1,3})'(?:[^'\\\n]|\\.|'')*+'?""", re.IGNORECASE),
    re.compile(r"(?P<kept>\bbearer\s{1,3})(?=[\w~+/-]{0,500}[\d._=])[\w.~+/=-]{6,}", re.IGNORECASE),
)
_MASK = "…"
_LONG_USER = re.compile(r"(?<=://)[\w.~%-]{20,200}(?=@)")
"""Too long for a name: a token."""


def redacted(text: str) -> str:
    """Return the text with ``…`` for the user and password of every URL, and for values of secret fields."""
    text = without_users(text, _MASK)
    lowered = text.lower()
    if not any(each in lowered for each in _SUSPECTS):
        return text
    text = masked(text, private_keys(text), _MASK)
    text = masked(text, named_values(text, is_secret), _MASK)
    for pattern in _OTHERS:
        text = pattern.sub(rf"\g<kept>{_MASK}", text)
    return text


def redacted_fields(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields with ``…`` for secret ones, also within others, and with their texts redacted."""
    return {name: _redacted_field(name, each) for name, each in fields.items()}


def _redacted_field(name: str, value: object) -> object:
    # A number is none: counts are by names of groups, say.
    if is_secret(name) and not isinstance(value, int | float | None):
        return _MASK
    match value:
        case str():
            return redacted(value)
        case dict():
            return redacted_fields(value)
        case list():
            return [_redacted_field("", each) for each in value]
        case tuple():
            return tuple(_redacted_field("", each) for each in value)
        case _:
            return value


def without_users(text: str, mask: str) -> str:
    """Return the text with a mask for the user and password of every URL, and for ``password=`` parameters."""
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


Spans = Iterator[tuple[int, int]]
"""Start and end of each, in order."""

# A name and what joins it to its value: `password=`, `"password": `, `{\"password\": `, `password => `, `('password',
# `, `"name": "password", "value": `. A word is matched once and as a whole: endless letters would otherwise be tried
# from each position.
_NAMED = re.compile(
    r"""(?<![A-Za-z0-9_-])(?P<name>[A-Za-z0-9_-]++)
    (?: (?P<closed>\\{0,4}["'`])? \]? \s{0,3} (?P<sign>=>|:=|={1,3}|:(?!:)) \s{0,3}
      | \\{0,4}["'] , \s{0,3} (?P<second> \\{0,4}["'] value \\{0,4}["'] \s{0,3} : \s{0,3} )? )""",
    re.VERBOSE | re.IGNORECASE,
)
_PAIR = re.compile(r"""[(\[]\s{0,3}[bru]?\\{0,4}["']$""", re.IGNORECASE)
_TO_THE_END_OF_THE_LINE = ("authorization", "cookie")
_NO_FIELDS = ("Error", "Exception", "Warning")
"""Endings of names before whose colon stands the kind of an error, no field."""
_LINE = re.compile(r"[^\n]+")
_WORD = re.compile(r"[^\s,;&)}\]]+")
_WORDS = re.compile(r"[^\n,;&)}\]]+")
_REST = re.compile(r"[^\s,;&)}\]]*")
_OPENING = re.compile(r"""[bruf]{0,2}(?P<escape>\\{0,8})(?P<quote>["'`])|(?P<bracket>[\[({])""", re.IGNORECASE)
_QUOTED = {quote: re.compile(rf"(?:[^{quote}\\]++|\\.)*+(?:{quote}|\\?\Z)", re.DOTALL) for quote in "\"'`"}
_IN_BRACKETS = re.compile(
    r"""[\[({]|(?P<closing>[\])}])|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|'(?:[^'\\]++|\\.)*+(?:'|\\?\Z)""", re.DOTALL
)
_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY")
_KEY_ENDS = "-----END"


def private_keys(text: str) -> Spans:
    """Yield the spans of private keys, from their first line to their last, or to the end if that is missing."""
    start = 0
    while (found := _KEY.search(text, start)) is not None:
        last = text.find(_KEY_ENDS, found.end())
        dashes = -1 if last < 0 else text.find("-----", last + len(_KEY_ENDS))
        start = len(text) if dashes < 0 else dashes + len("-----")
        yield found.start(), start


def named_values(text: str, hides: Callable[[str], bool]) -> Spans:
    """Yield the spans of values whose field names must be hidden."""
    start = 0
    while (found := _NAMED.search(text, start)) is not None:
        start = found.end()
        if not hides(found["name"]) or (found["sign"] == ":" and found["name"].endswith(_NO_FIELDS)):
            if found["sign"] is None:
                start = found.end("name")
            continue
        if found["sign"] is None and found["second"] is None and not _is_in_pair(text, found.start()):
            start = found.end("name")
            continue
        end = _value_end(text, found)
        if end > found.end():
            yield found.end(), end
            start = end


def _is_in_pair(text: str, start: int) -> bool:
    return _PAIR.search(text[max(start - 12, 0) : start]) is not None


def _value_end(text: str, found: re.Match[str]) -> int:
    start = found.end()
    header = any(each in found["name"].lower() for each in _TO_THE_END_OF_THE_LINE)
    if header and found["sign"] == ":" and found["closed"] is None:
        return _ended(_LINE, text, start)
    opening = _OPENING.match(text, start)
    if opening is None:
        if header and found["closed"] is None and found["sign"] is not None:
            return _ended(_LINE, text, start)
        return _ended(_WORDS if found["sign"] in (":", None) else _WORD, text, start)
    if opening["bracket"] is not None:
        return _bracket_end(text, start)
    # Text behind a quote without a space belongs to it.
    return _ended(_REST, text, _quote_end(text, opening))


def _quote_end(text: str, opening: re.Match[str]) -> int:
    escape, quote = opening["escape"], opening["quote"]
    if not escape:
        return _ended(_QUOTED[quote], text, opening.end())
    # Quotes within quotes: the value ends at the same escaping, not at a deeper one.
    closing, start = escape + quote, opening.end()
    while (found := text.find(closing, start)) >= 0:
        if text[found - 1] != "\\":
            return found + len(closing)
        start = found + len(closing)
    return len(text)


def _bracket_end(text: str, start: int) -> int:
    depth = 0
    for found in _IN_BRACKETS.finditer(text, start):
        if found["closing"] is not None:
            depth -= 1
        elif found[0] in "[({":
            depth += 1
        if depth == 0:
            return found.end()
    return len(text)


def _ended(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return start if found is None else found.end()
