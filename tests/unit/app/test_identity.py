import copy
import os
import pickle
import threading
import time
from uuid import UUID, SafeUUID

import pytest

from mainspring.app.message.envelope import Identities
from tests.services.children import ended_well, forked


def milliseconds(made: UUID) -> int:
    return made.int >> 80


def test_an_id_is_a_uuid_of_version_7() -> None:
    made = Identities().make()

    assert made.version == 7
    assert made.variant == "specified in RFC 4122"


def test_an_id_begins_with_the_time() -> None:
    before = time.time_ns() // 1_000_000
    made = Identities().make()
    after = time.time_ns() // 1_000_000

    assert before <= milliseconds(made) <= after


def test_ids_of_one_process_only_ever_grow() -> None:
    identities = Identities()

    made = [identities.make() for _ in range(20_000)]

    assert made == sorted(made)
    assert len(set(made)) == 20_000


def test_ids_made_by_many_threads_are_unique_and_grow_in_each() -> None:
    identities = Identities()
    per_thread: list[list[UUID]] = [[] for _ in range(8)]

    def work(made: list[UUID]) -> None:
        made += [identities.make() for _ in range(2_000)]

    threads = [threading.Thread(target=work, args=(made,)) for made in per_thread]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({each for made in per_thread for each in made}) == 16_000
    assert all(made == sorted(made) for made in per_thread)


def test_ids_grow_even_when_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    identities = Identities()
    first = identities.make()

    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000_000)
    second = identities.make()

    assert second > first
    assert second.version == 7


def test_an_id_is_like_any_other_uuid() -> None:
    made = Identities().make()

    again = UUID(str(made))

    assert (again, hash(again), repr(again)) == (made, hash(made), repr(made))
    assert copy.copy(made) == pickle.loads(pickle.dumps(made)) == made
    assert made.is_safe is SafeUUID.unknown


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_does_not_repeat_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 5_000_000_000)
    identities = Identities()
    identities.make()
    here, there = os.pipe()

    child = forked(lambda: os.write(there, identities.make().bytes))

    assert ended_well(child)
    assert UUID(bytes=os.read(here, 16)) != identities.make()
    os.close(here)
    os.close(there)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_forked_while_another_thread_makes_an_id_does_not_wait_for_it() -> None:
    identities = Identities()
    with identities._lock:
        child = forked(identities.make)

    assert ended_well(child)


def test_ids_of_one_instant_carry_into_the_next_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 5_000_999_999)
    identities = Identities()

    made = [identities.make() for _ in range(3)]

    assert [milliseconds(each) for each in made] == [5_000, 5_001, 5_001]
    assert made == sorted(made)
