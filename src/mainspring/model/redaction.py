"""Text that may quote what a user typed, without the password of a URL in it."""

from __future__ import annotations

import re

# Up to the last @ that is within the same quotes: a password may hold any character, and too much is better hidden
# than too little. One slash is what is left of two where the URL was taken for a path. Our own example is no secret.
# The bound keeps hostile text from costing a quadratic search.
_USERINFO = re.compile(r""":/{1,2}(?!user:password@)[^\s:/'"]*:(?:[^'"\n]{0,500}@|\S{0,500}@)""")
_PARAMETER = re.compile(r"""(password=)[^\s&'"]+""", re.IGNORECASE)


def redacted(text: str) -> str:
    """The text with ``…`` in place of the user and password of every URL, and of ``password=`` parameters."""
    if ":/" in text:
        text = _USERINFO.sub("://…@", text)
    return _PARAMETER.sub(r"\1…", text)
