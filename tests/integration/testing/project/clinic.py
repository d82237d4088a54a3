"""An application with schedules, that the tests beside it are about."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from mainspring import Context, Mainspring, every, intervals

app = Mainspring("postgresql://clinic@db.internal/clinic", name="clinic")


@dataclass
class Archive:
    """What the clinic's handlers talk to, and the tests play with."""

    answers: bool = True
    reports: list[datetime] = field(default_factory=list)
    on_sweep: Callable[[], object] = bool


archive = Archive()


@app.recurring("30 2 * * *", timezone="America/New_York", retry=intervals("10m", "1h"))
async def daily_report(ctx: Context) -> None:
    if not archive.answers:
        raise ConnectionError("the archive does not answer")
    assert ctx.scheduled_for is not None
    archive.reports.append(ctx.scheduled_for)
    await ctx.publish("mail", {"report": ctx.scheduled_for.date().isoformat()})


@app.recurring(every("1h"), timeout="6h")
def sweep() -> None:
    archive.on_sweep()


@app.consumer("appointments")
async def remind(patient: str) -> None:
    await app.publish("mail", {"patient": patient})
