"""What the tests of ``cpu=True`` register: functions and a class at module level, where a process can find them."""

import os
from dataclasses import dataclass
from typing import Annotated, Any

from mainspring import Consumer, Context, Depends, Done, Mainspring

app = Mainspring("memory://", name="darkroom", namespace="lab")


@dataclass
class Photo:
    name: str
    width: int = 0


def develop(photo: Photo, ctx: Context) -> Done:
    facts = (photo.name, ctx.topic, ctx.group, ctx.key, dict(ctx.headers), ctx.attempt, ctx.correlation_id, ctx.fence)
    assert os.environ["WORKER_PID"] == str(os.getppid())
    assert ctx.remaining is not None
    assert not ctx.cancelled
    return Done(repr(facts))


def publishes(photo: Photo, ctx: Context) -> None:
    ctx.sync.publish("photos.developed", photo.name)


def forgets_to_await(photo: Photo, ctx: Context) -> None:
    ctx.publish("photos.developed", photo.name)  # type: ignore[unused-coroutine]


def lens() -> str:
    return "50 mm"


@app.consumer("photos.taken", cpu=True, concurrency=1, keep="all")
def takes_what_it_needs(photo: Photo, glass: Annotated[str, Depends(lens)]) -> Done:
    return Done(f"{photo.name} at {glass}")


@app.consumer("photos.taken", cpu=True, concurrency=1, keep="all")
class Enlarger(Consumer[Photo]):
    def __init__(self, glass: Annotated[str, Depends(lens)]) -> None:
        self.glass = glass

    def consume(self, ctx: Context) -> Done:
        return Done(f"{ctx.message.name} enlarged at {self.glass} for {ctx.group}")


def replaced(photo: Any) -> None: ...


original = replaced


def replaced(photo: Any, ctx: Any = None) -> None: ...  # type: ignore[no-redef]
