"""A ``cpu=True`` consumer of a type with a codec and versions, at module level, where a process can find it."""

from dataclasses import dataclass
from typing import Any

from mainspring import Done, Mainspring, MsgpackCodec

app = Mainspring("memory://", codecs=[MsgpackCodec()])


@app.message("photos.taken", codec="application/msgpack", version=2)
@dataclass
class Photo:
    name: str
    width: int


@app.upcaster(Photo, 1)
def with_width(old: dict[str, Any]) -> dict[str, Any]:
    return old | {"width": 100}


@app.consumer(cpu=True, concurrency=1, keep="all")
def develop(photo: Photo) -> Done:
    return Done(f"{photo.name}, {photo.width} wide")
