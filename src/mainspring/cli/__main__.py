"""``python -m mainspring.cli``: the same as ``mainspring``."""

from mainspring.cli import main

main()
