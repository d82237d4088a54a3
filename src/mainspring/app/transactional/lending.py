"""What the transactional consumers of one worker share: the app's database, and the connections it lends."""

from __future__ import annotations

from dataclasses import dataclass

from mainspring.app.transactional.sources import Source
from mainspring.app.transactional.within import Succeeding, Within
from mainspring.app.transactions import Transactions
from mainspring.model.errors import BadOption
from mainspring.storage.contract import Lender


@dataclass(frozen=True, slots=True)
class Lending:
    """Makes the transactions of a worker's consumers."""

    transactions: Transactions
    lender: Lender

    def around(
        self, source: Source, group: str, concurrency: int, *, threaded: bool, succeeding: Succeeding | None = None
    ) -> Within:
        """What goes around the calls of this consumer. Raises BadOption where it could not be served."""
        if self.transactions.engine == "memory":
            raise BadOption(
                f"{group} is transactional, and memory:// has no transactions: use sqlite:/// or postgresql://, or try "
                "the handler in app.testing(tx=…), which lends it your own"
            )
        most = self.lender.size if source.is_ours else source.capacity()
        if most is not None and concurrency > most:
            raise BadOption(
                f"{group} is transactional with concurrency={concurrency}, and its handler pool has {most} of them: "
                f"lower the concurrency, or raise {'handler_pool of Mainspring(…)' if source.is_ours else 'the pool'}"
            )
        begin = source.begin(self.transactions, self.lender, blocking=threaded)
        told = self.transactions.told
        return Within(begin, self.transactions, told, pins=not source.is_ours, succeeding=succeeding)
