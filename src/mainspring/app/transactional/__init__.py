"""Transactional consumers: a handler's writes, what it publishes and its verdict are one transaction (invariant 3).

``sources`` reads what ``transactional=`` was given, ``beginning`` begins a transaction on whatever that makes, and
``within`` puts it around a handler's call: begin, handle, settle, commit. ``lending`` has what the consumers of one
worker share, and ``conflicts`` knows which failures another try cures. A worker that dies anywhere in it leaves nothing
behind but a claim that lapses.
"""

from mainspring.app.transactional.lending import Lending
from mainspring.app.transactional.sources import Source, read_source
from mainspring.app.transactional.within import within

__all__ = ["Lending", "Source", "read_source", "within"]
