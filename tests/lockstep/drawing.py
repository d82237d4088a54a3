"""What Hypothesis may draw: few names and few instants, so that histories cross each other often."""

from datetime import timedelta
from typing import Literal, get_args
from uuid import UUID

from hypothesis import strategies as st

from mainspring.model.measures import BINS, STATUSES, TIMES, Measure
from mainspring.model.message import Draft, Keep, Priority, UniqueKey
from mainspring.model.retention import Kind, Retention
from mainspring.model.search import DeadSelection, Filter
from mainspring.model.verdict import Bury, Cancel, Done, Failure, Release, Retry, Snooze, Verdict
from mainspring.model.views import Beat, Declaration, GroupRuns, State
from mainspring.model.worker import Declarer

TICK = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

IDS = [UUID(int=number << 64 | 7) for number in range(1, 13)]
GROUPS = ["mailer", "analytics", "direct"]
TOPICS = ["orders.placed", "orders.paid", "orders", "invoices.sent"]
PATTERNS = ["orders.placed", "orders.*", "orders.#", "#", "invoices.sent"]
KEYS = ["k", "it's"]
SCHEDULES = ["nightly", "it's 夜"]
ERRORS = ["Timeout after 5 s", "disk 100% full", "boom"]

message_ids = st.sampled_from(IDS)
groups = st.sampled_from(GROUPS)
keys = st.sampled_from(KEYS)
topics = st.sampled_from(TOPICS)
levels = st.sampled_from(Priority)
limits = st.sampled_from([1, 2, 1000])
holds = st.sampled_from([SECOND, 30 * SECOND, HOUR])
passing = st.sampled_from([TICK, SECOND, 31 * SECOND, 20 * MINUTE, HOUR, HOUR + TICK, DAY, 7 * DAY + TICK, 31 * DAY])
delays = st.sampled_from([timedelta(), timedelta(), SECOND, MINUTE, 2 * HOUR])
keeps: st.SearchStrategy[Keep] = st.sampled_from(("all", "failures", "none"))
offsets = st.none() | st.sampled_from([-DAY, -SECOND, timedelta(), 40 * SECOND])
"""From now: an instant that is given as such, and perhaps in the past."""

drafts = st.builds(
    Draft,
    id=message_ids,
    topic=topics,
    payload=st.binary(max_size=4),
    headers=st.none() | st.just({"a": "b"}),
    key=st.none() | keys,
    group=st.none() | st.none() | groups,
    priority=levels,
    delay=delays,
    expires_in=st.none() | st.just(MINUTE),
    schedule=st.none() | st.none() | st.sampled_from(SCHEDULES),
    manual=st.sampled_from([False, False, True]),
    causation_id=st.none() | st.none() | message_ids,
)

hashes = st.sampled_from([b"\x00", b"it's"])
likenesses = st.builds(
    UniqueKey, hash=hashes, scope=st.sampled_from(("pending", "running", MINUTE, DAY)), keep=st.just("first")
) | st.builds(UniqueKey, hash=hashes, scope=st.just("pending"), keep=st.just("last"))

Timed = tuple[Draft, timedelta | None]
"""A draft, and how far from now it is to be due as an instant."""
batches = st.lists(st.tuples(drafts, offsets), min_size=1, max_size=5)

Wanted = tuple[str, int, list[tuple[Priority, timedelta | None]]]
"""A group, a limit, and levels with how far back their scan begins."""
scans = st.lists(
    st.tuples(levels, st.none() | st.sampled_from([SECOND, 31 * SECOND, DAY])),
    min_size=1,
    max_size=4,
    unique_by=lambda scan: scan[0],
)
full_scans = st.just([(level, None) for level in Priority])
wants: st.SearchStrategy[list[Wanted]] = st.lists(
    st.tuples(groups, st.sampled_from([0, 1, 2, 1000]), full_scans | scans),
    min_size=1,
    max_size=3,
    unique_by=lambda want: want[0],
)
some_claims = st.sets(st.integers(0, 8), min_size=1, max_size=4)
"""Counted from the newest: most of them are still good."""

owners = st.sampled_from(["node-1", "node-1", "node-2"])
sayings = st.sampled_from(["half", "it's 夜, 100%"])
"""What handlers say of their runs."""

failures = st.builds(
    Failure,
    kind=st.sampled_from(("error", "timeout", "poison")),
    error=st.sampled_from(ERRORS),
    traceback=st.none() | st.just("line 1\nline 2"),
)
verdicts: st.SearchStrategy[Verdict] = st.one_of(
    st.builds(Done, st.none() | st.just("42 rows")),
    st.builds(Retry, delays, failures),
    st.builds(Snooze, delays, st.none() | st.just("later")),
    st.builds(Release, delays),
    st.builds(Bury, failures),
    st.builds(Cancel, st.none() | st.just("obsolete")),
)
Settling = tuple[Verdict, Keep, timedelta, bool, bool]
settlings: st.SearchStrategy[Settling] = st.tuples(
    verdicts, keeps, st.sampled_from([timedelta(), SECOND, 3 * HOUR]), st.just(False), st.booleans()
)

declarations = st.lists(
    st.builds(
        Declaration,
        group=groups,
        app=st.sampled_from(["shop", "shop", "shop", "crm"]),
        patterns=st.lists(st.sampled_from(PATTERNS), max_size=3).map(tuple),
        handler=st.sampled_from(["old", "new"]),
        options=st.dictionaries(st.just("retry"), st.sampled_from(["1", "2"]), max_size=1),
        version=st.sampled_from([0, 0, 1]),
    ),
    max_size=3,
    unique_by=lambda declaration: declaration.group,
)
declarers = st.none() | st.builds(
    Declarer, st.sampled_from(["shop/a", "shop/b"]), st.sampled_from(["1", "2"]), st.booleans()
)

Action = Literal["pause", "resume", "release", "retire"]
actions: st.SearchStrategy[Action] = st.sampled_from(
    ("resume", "pause", "resume", "release", "release", "resume", "retire")
)
Steering = Literal["revive", "discard", "run_now", "cancel"]
steerings: st.SearchStrategy[Steering] = st.sampled_from(get_args(Steering))
states: st.SearchStrategy[State] = st.sampled_from(
    ("dead", "dead", "scheduled", "scheduled", "ready", "running", "parked")
)
selections = st.just(DeadSelection()) | st.builds(
    DeadSelection,
    message_id=st.none() | st.none() | message_ids,
    group=st.none() | groups,
    topic=st.none() | st.none() | topics,
    error=st.none() | st.sampled_from(["TIMEOUT", "100%", "_"]),
)
filters = st.builds(
    Filter,
    state=st.sampled_from(("live", *get_args(State))),
    group=st.none() | groups,
    topic=st.none() | st.none() | topics,
    key=st.none() | st.none() | keys,
    limit=st.sampled_from([1, 3, 50]),
    text=st.none() | st.none() | st.sampled_from(["a", "\x00"]),
    held_by=st.none() | st.none() | st.sampled_from(["node-1", "node-2"]),
    scan=st.sampled_from([1, 2, 5, 1000]),
)
lengths = st.none() | st.sampled_from([timedelta(), HOUR, 7 * DAY])
kinds: st.SearchStrategy[Kind] = st.sampled_from(("done", "failures", "dead", "parked"))
rules = st.dictionaries(st.sampled_from(PATTERNS), st.dictionaries(kinds, lengths, max_size=3), max_size=3)
retentions = st.just(Retention()) | st.builds(
    Retention,
    repeats=st.sampled_from([timedelta(), MINUTE, HOUR]),
    done=lengths,
    failures=lengths,
    dead=lengths,
    parked=lengths,
    workers=st.sampled_from([HOUR, DAY]),
    audit=lengths,
    topics=rules,
)

counted = st.builds(
    Measure, groups, st.sampled_from([*STATUSES, *TIMES]), st.sampled_from([0, 1, BINS - 1]), st.integers(1, 5)
)
tallies = st.builds(GroupRuns, st.integers(0, 5), st.integers(0, 5))
beats = st.builds(
    Beat,
    worker=st.sampled_from(["node-1", "node-2"]),
    app=st.just("shop"),
    host=st.sampled_from(["host-1", "host-2"]),
    pid=st.integers(1, 99),
    groups=st.lists(groups, unique=True, max_size=2).map(tuple),
    in_hand=st.integers(0, 9),
    bell=st.sampled_from(["poll", "watch"]),
    runs=st.dictionaries(groups, tallies, max_size=2),
    measures=st.lists(counted, unique_by=lambda each: (each.group, each.what, each.bin), max_size=4).map(tuple),
    start_id=st.sampled_from(["", "first", "second"]),
    number=st.integers(0, 3),
    draining=st.booleans(),
)
