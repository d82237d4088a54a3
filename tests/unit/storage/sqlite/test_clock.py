"""The clock of SQLite: the host's, never going back."""

from datetime import UTC, datetime

from mainspring.storage.script import Script, Statement
from mainspring.storage.sqlite.dialect import Clock
from tests.unit.storage.sqlite.stand_in import NOON

MINUTE = 60_000_000


class Host:
    """A host's clock that a test sets, and the row that is stored."""

    def __init__(self) -> None:
        self.time = NOON
        self.stored = 0
        self.clock = Clock("read", "mark", lambda: self.time)

    def run(self, script: Script[int]) -> int:
        """Run it against the stored mark, as the SQL would."""
        rows: list[tuple[int]] = []
        try:
            statement = next(script)
            while True:
                if statement.sql == "mark" and self.stored < statement.args[0] - 100_000:
                    self.stored = statement.args[0]
                rows = [(self.stored,)] if statement.sql == "read" else []
                statement = script.send(rows)
        except StopIteration as stop:
            return int(stop.value)


def test_it_is_the_hosts_time() -> None:
    host = Host()

    assert host.run(host.clock.turn(None)) == NOON
    assert host.run(host.clock.read(None)) == NOON


def test_a_clock_set_back_stands_still_until_it_has_caught_up() -> None:
    host = Host()
    host.run(host.clock.turn(None))

    host.time = NOON - MINUTE
    set_back = host.run(host.clock.turn(None))
    host.time = NOON + 1
    caught_up = host.run(host.clock.turn(None))

    assert (set_back, caught_up) == (NOON, NOON + 1)


def test_after_a_restart_the_stored_mark_counts() -> None:
    host = Host()
    host.run(host.clock.turn(None))
    host.time = NOON - MINUTE

    restarted = Clock("read", "mark", lambda: host.time)

    assert host.run(restarted.read(None)) == NOON


def test_what_only_read_before_the_clock_was_set_back_counts_too() -> None:
    host = Host()
    host.run(host.clock.read(None))
    host.time = NOON - MINUTE

    assert host.run(host.clock.turn(None)) == NOON
    assert host.stored == NOON


def test_the_mark_moves_only_when_it_is_a_tenth_of_a_second_behind() -> None:
    host = Host()
    host.run(host.clock.turn(None))

    host.time = NOON + 100_000
    host.run(host.clock.turn(None))
    near = host.stored
    host.time = NOON + 100_001
    host.run(host.clock.turn(None))

    assert (near, host.stored) == (NOON, NOON + 100_001)


def test_a_hand_set_clock_wins_and_moves_no_mark() -> None:
    host = Host()
    by_hand = datetime(2040, 1, 1, tzinfo=UTC)

    turned = host.run(host.clock.turn(by_hand))
    read = host.run(host.clock.read(by_hand))

    assert turned == read == 2_208_988_800_000_000
    assert host.stored == 0
    assert host.run(host.clock.turn(None)) == NOON


def test_even_a_hand_set_clock_takes_the_write_lock_first() -> None:
    clock = Clock("read", "mark", lambda: NOON)

    first = next(clock.turn(datetime(2040, 1, 1, tzinfo=UTC)))

    assert first == Statement("mark", (0,))
