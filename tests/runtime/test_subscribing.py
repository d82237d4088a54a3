"""A worker says what its declaration has changed, at its start as in every round."""

import logging
from datetime import UTC, datetime

import pytest

from mainspring.model.views import Declaration
from mainspring.model.worker import Declarer
from mainspring.runtime.janitor import Subscribing
from mainspring.runtime.reports import RateLimitedLog
from mainspring.storage.memory import MemoryStorage
from mainspring.timing.clock import HandClock


async def test_what_the_start_of_a_worker_removes_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mainspring")
    storage, clock = MemoryStorage(), HandClock(datetime(2030, 1, 1, tzinfo=UTC))
    await storage.upkeep.declare([Declaration("mail", "shop", ("a", "b"), "shop:mail")], Declarer("shop/old", "1"))
    await storage.upkeep.deregister("shop/old", "1")
    declarations = [Declaration("mail", "shop", ("a",), "shop:mail")]
    subscribing = Subscribing(storage.upkeep, declarations, Declarer("shop/new", "2"), RateLimitedLog(clock), clock)

    await subscribing.declare()

    assert [each.getMessage() for each in caplog.records] == [
        "mail: no worker declares its subscription to b any more, so it is removed"
    ]
