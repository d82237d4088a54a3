"""Looking a database over: one that is well has no complaints, and looking changes nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from mainspring.model.symptom import Tolerances
from mainspring.storage.contract import Storage
from mainspring.storage.memory import MemoryStorage
from tests.contract.acting import claim, draft, ids, publish

pytestmark = pytest.mark.psycopg


def now() -> datetime:
    return datetime.now(UTC)


@pytest.mark.memory
async def test_a_database_that_is_well_has_no_symptoms(storage: Storage) -> None:
    found = await storage.schema.examine(Tolerances(skew=timedelta(seconds=30)), now)

    # How the server is set up that the tests run on is not ours to say.
    wrong = [each for each in found if each.grade not in ("ok", "note") and "whole server" not in each.summary]
    assert wrong == []
    assert bool(found) is not isinstance(storage, MemoryStorage)


async def test_looking_leaves_what_is_due_as_it_was(storage: Storage) -> None:
    message = draft(group="mailer")
    await publish(storage, message)

    await storage.schema.examine(Tolerances(), now)

    assert ids(await claim(storage)) == [message.id]
