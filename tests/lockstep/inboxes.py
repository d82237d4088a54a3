"""Histories of the inbox: let in, marked by whoever holds an attempt or once held it, released, forgotten."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from mainspring.model.inbox import AdmitStatus, InboxFilter, InboxKey, InboxStatus, MarkStatus
from mainspring.model.retention import Retention
from mainspring.storage.contract import Storage
from tests.lockstep import alike, drawing
from tests.lockstep.twins import Twins

KEYS = [
    InboxKey(group, source, message_id)
    for group in ("shop", "mail")
    for source in ("stripe", "it's")
    for message_id in ("evt_1", "evt_ß")
]
keys = st.sampled_from(KEYS)
hashes = st.sampled_from([None, None, b"one", b"one", b"two", b"\x00\xff"])
entering: st.SearchStrategy[AdmitStatus] = st.sampled_from(("processing", "processing", "done"))
fates: st.SearchStrategy[MarkStatus] = st.sampled_from(("done", "seen", "seen", "dead"))
errors = st.none() | st.sampled_from(drawing.ERRORS)
patience = st.none() | st.sampled_from([drawing.SECOND, drawing.HOUR])
passing = st.sampled_from([drawing.TICK, drawing.SECOND, 20 * drawing.MINUTE, drawing.HOUR, 31 * drawing.DAY])
statuses: st.SearchStrategy[InboxStatus | None] = st.sampled_from((None, "seen", "processing", "done", "dead"))
filters = st.builds(
    InboxFilter,
    group=st.none() | st.sampled_from(["shop", "mail"]),
    source=st.none() | st.just("it's"),
    message_id=st.none() | st.just("evt_ß"),
    status=statuses,
    stuck=st.none() | st.sampled_from([drawing.SECOND, drawing.HOUR]),
    limit=st.sampled_from([1, 3, 100]),
)


class Inboxes(Twins):
    """All that is done to the inbox."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[tuple[InboxKey, int]] = []

    @initialize(key=keys, hash=hashes)
    def begin(self, key: InboxKey, hash: bytes | None) -> None:
        self.admit(key, hash, "processing", None)

    @rule(by=passing)
    def time_passes(self, by: timedelta) -> None:
        self.turn(self.now + by)

    @rule(key=keys, hash=hashes, status=entering, after=patience)
    def admit(self, key: InboxKey, hash: bytes | None, status: AdmitStatus, after: timedelta | None) -> None:
        admission = self.alike(lambda storage: storage.inbox.admit(key, hash, status, after))
        if admission:
            self.held.append((key, admission.attempts))

    @precondition(lambda self: self.held)
    @rule(back=st.integers(0, 3), fate=fates, error=errors)
    def mark(self, back: int, fate: MarkStatus, error: str | None) -> None:
        key, attempt = self.held[-1 - back % len(self.held)]
        self.alike(lambda storage: storage.inbox.mark(key, attempt, fate, error))

    @rule(key=keys)
    def fail_and_come_again(self, key: InboxKey) -> None:
        self.admit(key, None, "processing", None)
        self.mark(0, "seen", "boom")
        self.admit(key, None, "processing", None)

    @rule(key=keys)
    def release(self, key: InboxKey) -> None:
        self.alike(lambda storage: storage.inbox.release(key, "ann"))

    @rule(kept=st.none() | st.sampled_from([drawing.HOUR, 30 * drawing.DAY]))
    def prune(self, kept: timedelta | None) -> None:
        # All at once: of several that changed in one moment, which a limit takes first is nobody's promise.
        self.alike(lambda storage: storage.upkeep.prune(Retention(inbox=kept), 1000))

    @rule(wanted=filters, back=st.none() | passing)
    def browse(self, wanted: InboxFilter, back: timedelta | None) -> None:
        asked = wanted if back is None else replace(wanted, before=self.now - back)
        self.alike(lambda storage: storage.inbox.browse(asked))

    @invariant()
    def everything_to_be_seen_agrees(self) -> None:
        self.alike(_everything)


async def _everything(storage: Storage) -> dict[str, Any]:
    return {
        "own": await storage.inbox.browse(InboxFilter(limit=100)),
        "audit": alike.audit(await storage.ledger.audit(None, 1000)),
    }
