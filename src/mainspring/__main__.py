"""``python -m mainspring``: the same as ``mainspring``."""

from mainspring.cli import main

main()
