"""Frames of AMQP: whatever a delivered message has beside its body, the client's reader goes on."""

import asyncio
import struct
from datetime import UTC, datetime
from typing import Any

import pytest
from aiormq import spec
from aiormq.connection import FrameReceiver
from pamqp.body import ContentBody
from pamqp.frame import marshal
from pamqp.header import ContentHeader

from mainspring.brokers.rabbitmq_frames import Frames, properties_of

AT = datetime(2030, 1, 1, tzinfo=UTC)


def delivered(key: bytes = b"orders.placed", channel: int = 1) -> bytes:
    place = b"\x04shop" + bytes([len(key)]) + key
    method = b"\x00\x3c\x00\x3c\x03tag" + struct.pack(">QB", 7, 0) + place
    return struct.pack(">BHI", 1, channel, len(method)) + method + b"\xce"


def headed(properties: bytes, channel: int = 1) -> bytes:
    header = struct.pack(">HHQ", 60, 0, 2) + properties
    return struct.pack(">BHI", 2, channel, len(header)) + header + b"\xce"


async def received(*frames: bytes) -> list[Any]:
    """Return the frames as the client reads them."""
    reader = asyncio.StreamReader()
    reader.feed_data(b"".join(frames))
    receiver = FrameReceiver(Frames(reader))  # type: ignore[arg-type]  # it has what the client uses
    return [(await receiver.get_frame())[2] for _ in frames]


async def test_properties_are_read_as_they_were_written() -> None:
    written = spec.Basic.Properties("text/plain", headers={"tenant": "Zoë", "n": 7}, message_id="m-1", timestamp=AT)
    header = marshal(ContentHeader(body_size=2, properties=written), 1)

    deliver, found, body = await received(delivered(), header, marshal(ContentBody(b"{}"), 1))
    properties, unreadable = properties_of(found)

    assert (deliver.exchange, deliver.routing_key, deliver.delivery_tag) == ("shop", "orders.placed", 7)
    assert (properties, unreadable) == (written, None)
    assert (found.body_size, body.value) == (2, b"{}")


@pytest.mark.parametrize(
    ("properties", "content_type", "headers"),
    [
        (b"\x80\x00\x02\xffx", r"\xffx", None),
        (b"\x20\x00\x00\x00\x00\x0a\x01\xfeS\x00\x00\x00\x03abc", None, {r"\xfe": "abc"}),
        (b"\x20\x00\x00\x00\x00\x04\x01n?x", None, {"properties": bytearray(b"\x20\x00\x00\x00\x00\x04\x01n?x")}),
        (
            b"\x00\x40" + struct.pack(">Q", 2**60),
            None,
            {"properties": bytearray(b"\x00\x40" + struct.pack(">Q", 2**60))},
        ),
        (b"\x80", None, {"properties": bytearray(b"\x80")}),
    ],
)
async def test_properties_that_cannot_be_read_are_told_and_end_nothing(
    properties: bytes, content_type: str | None, headers: dict[str, Any] | None
) -> None:
    _, found, _, beat = await received(
        delivered(), headed(properties), marshal(ContentBody(b"{}"), 1), b"\x08\x00\x00\x00\x00\x00\x00\xce"
    )
    read, unreadable = properties_of(found)

    assert (read.content_type, read.headers) == (content_type, headers)
    assert unreadable is not None
    assert unreadable.startswith("its AMQP properties cannot be read: ")
    assert beat.name == "Heartbeat"


@pytest.mark.parametrize("key", [b"\xff", b"\xff" * 255, "ä".encode() * 100 + b"\xff"])
async def test_a_routing_key_that_is_no_text_is_shown_as_one(key: bytes) -> None:
    (deliver,) = await received(delivered(key))

    assert (deliver.exchange, deliver.delivery_tag) == ("shop", 7)
    assert r"\xff" in deliver.routing_key or "-" in deliver.routing_key


async def test_a_message_that_comes_back_to_its_sender_is_left_to_the_client() -> None:
    returned = spec.Basic.Return(312, "NO_ROUTE", "shop", "orders.placed")
    written = ContentHeader(body_size=2, properties=spec.Basic.Properties(message_id="m-1"))

    _, _, found = await received(delivered(channel=2), marshal(returned, 1), marshal(written, 1))

    assert found.properties.message_id == "m-1"


async def test_what_is_no_frame_at_all_is_left_to_the_client() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(b"AMQP\x00\x00\x09\x01")
    reader.feed_eof()

    assert await Frames(reader).readexactly(1) == b"A"


async def test_its_end_is_that_of_the_connection() -> None:
    reader = asyncio.StreamReader()
    frames = Frames(reader)
    reader.feed_data(delivered())
    reader.feed_eof()

    begun = await frames.readexactly(1)
    before = frames.at_eof()
    await frames.readexactly(len(delivered()) - len(begun))

    assert (before, frames.at_eof()) == (False, True)
