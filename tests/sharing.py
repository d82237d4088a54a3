"""How a run is shared out among workers: what is costly to prepare stays together, and what takes long begins first.

The mark ``xdist_group`` would say the former, but pytest-xdist 3.8 writes it into an attribute that pytest 9.2 no
longer reads: every worker then fills its own million rows, and nothing says so. The path is in every node's id.
"""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

TOGETHER = (
    "tests/browser/",  # a browser
    "tests/dashboard/test_openapi.py",  # an app full of everything
    "tests/integration/cli/test_help.py",  # the help of every command
    "tests/integration/fresh/test_first_minutes.py",  # a wheel, what it needs, and an environment
    "tests/integration/postgres/test_join_plans.py",  # fifty thousand rows in each of three tables
    "tests/integration/postgres/test_measure_plans.py",  # a hundred thousand rows
    "tests/integration/postgres/test_parked_plans.py",  # twenty thousand rows in each of two tables
    "tests/integration/postgres/test_plans.py",  # a million rows
    "tests/integration/postgres/test_refused.py",  # a server of its own
    "tests/integration/postgres/test_rotation.py",  # a server of its own
    "tests/integration/postgres/test_topic_plans.py",  # a hundred thousand rows in each of three tables
    "tests/integration/postgres/test_two_phase.py",  # a server of its own
)
"""Files and folders of which each is run by one worker, from its first test to its last."""

LONG = (
    "tests/browser/",
    "tests/house/test_docs.py",
    "tests/lockstep/",
    "tests/integration/examples/",
    "tests/faults/",
    "tests/dashboard/test_openapi.py",
    "tests/integration/cli/",
    "tests/integration/",
)
"""What begins first, in this order. A long test that begins last is waited for by workers with nothing to do."""


class Sharing(LoadScopeScheduling):  # type: ignore[misc] # pytest-xdist brings no types
    """Hands out one test at a time, and what is in ``TOGETHER`` as a whole."""

    def _split_scope(self, nodeid: str) -> str:
        path, _, _ = nodeid.partition("::")
        return next((start for start in TOGETHER if path.startswith(start)), nodeid)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget a unit that is complete: pytest-xdist would count through all of them after every test."""
        scope = self._split_scope(self.registered_collections[node][item_index])
        super().mark_test_complete(node, item_index, duration)
        if all(self.assigned_work[node][scope].values()):
            del self.assigned_work[node][scope]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sharing:
    return Sharing(config, log)


def in_turn(items: list[pytest.Item]) -> None:
    """Bring the tests into the order of ``LONG``; the others come after, as they were collected."""
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    return next((turn for turn, start in enumerate(LONG) if item.nodeid.startswith(start)), len(LONG))
