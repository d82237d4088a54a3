"""The checkers: what clients and handlers wrote down, held against what the database kept."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from uuid import UUID

from tests.faults.ledger import Execution, Ledger
from tests.faults.tables import Buried, KeptRun, Tables


@dataclass
class Judgement:
    """What was found; every set and list that names a violation is empty when all is well."""

    messages: int
    unknown: int
    executed: int
    duplicates: int
    bound: int
    lost: set[UUID] = field(default_factory=set)
    """Published for certain, but no execution of it ever ended well, and it was not buried."""
    unended: set[UUID] = field(default_factory=set)
    """Published for certain, but in no terminal state, or in two."""
    doubled: set[UUID] = field(default_factory=set)
    """Outcome unknown, and stored twice or handled to two ends."""
    stale: list[str] = field(default_factory=list)
    """Verdicts accepted from a holder that had lost its claim."""
    shared: set[tuple[UUID, int]] = field(default_factory=set)
    """Claims that two executions held."""
    buried: list[Buried] = field(default_factory=list)

    @property
    def flawless(self) -> bool:
        """Whether nothing was lost, doubled, shared or written late, and duplicates stayed within bounds."""
        violations = self.lost or self.unended or self.doubled or self.stale or self.shared
        return not violations and self.duplicates <= self.bound

    def line(self) -> str:
        return (
            f"messages={self.messages} unknown={self.unknown} lost={len(self.lost | self.unended)} "
            f"doubled={len(self.doubled)} effects={self.executed} "
            f"duplicates={self.duplicates}≤{self.bound} stale={len(self.stale) + len(self.shared)} "
            f"buried={len(self.buried)}"
        )


def judge(ledger: Ledger, executed: list[Execution], tables: Tables, bound: int) -> Judgement:
    """Judge a run that has drained; ``bound`` is how many duplicates its faults may have caused."""
    certain, unknown = ledger.ids("ok"), ledger.ids("unknown", "invoked")
    runs, buried = tables.runs(), tables.buried()
    dead = {each.id for each in buried}
    handled = {each.id for each in executed if each.outcome == "ok"}
    ends = Counter(run.id for run in runs if run.status in {"done", "cancelled"}) + Counter(dead)
    stored = Counter(tables.messages())
    begun = Counter(each.id for each in executed)
    return Judgement(
        messages=len(certain),
        unknown=len(unknown),
        executed=len(executed),
        duplicates=sum(begun.values()) - len(begun),
        bound=bound,
        lost=certain - handled - dead,
        unended={id for id in certain if ends[id] != 1},
        doubled={id for id in unknown if ends[id] > 1 or stored[id] > 1},
        stale=stale_verdicts(executed, runs),
        shared={claim for claim, count in Counter((each.id, each.epoch) for each in executed).items() if count > 1},
        buried=buried,
    )


def stale_verdicts(executed: Iterable[Execution], runs: Iterable[KeptRun]) -> list[str]:
    """Accepted verdicts that are not those of the last holder.

    A handler's output names the epoch under which it ran. Once a later epoch has executed, the earlier one may not
    be the one that was written.
    """
    latest: Mapping[UUID, int] = _latest(executed)
    found: list[str] = []
    for run in runs:
        if run.status != "done":
            continue
        if run.output is None:
            found.append(f"{run.id}: done, but nobody said so")
            continue
        accepted = int(run.output.split(":")[0])
        if accepted != latest.get(run.id, accepted):
            found.append(f"{run.id}: epoch {accepted} was accepted after epoch {latest[run.id]} had begun")
    return found


def reclaim_times(executed: Iterable[Execution], deaths: Mapping[int, float]) -> list[float]:
    """For every run that a process took into its grave: the seconds until somebody else began it."""
    by_id: dict[UUID, list[Execution]] = defaultdict(list)
    for each in executed:
        by_id[each.id].append(each)
    return [
        after.began - deaths[before.pid]
        for those in by_id.values()
        for before, after in pairwise(those)
        # A claim in between that never began was another death: its time is not this one's.
        if before.pid in deaths and before.outcome is None and after.epoch == before.epoch + 1
    ]


def _latest(executed: Iterable[Execution]) -> dict[UUID, int]:
    latest: dict[UUID, int] = {}
    for each in executed:
        latest[each.id] = max(each.epoch, latest.get(each.id, 0))
    return latest
