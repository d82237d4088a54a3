"""NATS servers that refuse, end or fall silent, and the options that name them."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from mainspring.brokers.contract import SENT
from mainspring.brokers.nats import Nats
from mainspring.model.errors import BadOption, BrokerUnavailable, MissingExtra
from tests.brokers.bench import TOPIC, message, until
from tests.brokers.benches.nats import URL, opened
from tests.services.private_brokers import PrivateNats, private_broker

WAIT = 10.0


USERS = """
authorization { users = [
    { user: "admin", password: "s3cret@home" }
    { user: "shop", password: "pw", permissions: { publish: ["orders.placed"], subscribe: ["_INBOX.>"] } }
] }
"""


Starts = Callable[..., Awaitable[PrivateNats]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starts]:
    with ExitStack() as stack:

        async def started(*options: str, config: str = "") -> PrivateNats:
            (tmp_path / "config").write_text(config)
            server = stack.enter_context(private_broker(PrivateNats, "-c", str(tmp_path / "config"), *options))
            await server.start()
            return server

        yield started


# ---- servers


async def test_what_a_long_name_identifies_is_bounded(start: Starts) -> None:
    name = "x" * 200
    broker = Nats((await start("-js")).url, stream=name, subjects=["orders.>"], durable="y" * 200)
    async with opened(broker) as connection:
        await connection.declare()
        assert await connection.send([message(1), message(2)], WAIT) == [SENT, SENT]
        found = await connection.receive(10, WAIT)

    assert len({each.coordinates for each in found}) == 2
    assert max(len(each.coordinates) for each in found) <= 200
    assert len(broker.source) <= 190
    assert broker.source != Nats(stream=name, durable="y" * 201).source


async def test_a_wrong_password_names_the_user_and_not_the_password(start: Starts) -> None:
    server = await start("-js", config=USERS)

    with pytest.raises(BrokerUnavailable) as caught:
        await Nats(server.url_of("admin:wr0ng@")).connect()

    assert f"127.0.0.1:{server.port} (user 'admin'): nats: 'Authorization Violation'" in str(caught.value)
    assert "check the user and the password in url=" in str(caught.value)
    assert "wr0ng" not in str(caught.value)


async def test_a_password_may_have_any_character(start: Starts) -> None:
    server = await start("-js", config=USERS)

    async with opened(Nats(server.url_of("admin:s3cret%40home@"))) as connection:
        assert not connection.closed


async def test_a_token_is_not_shown(start: Starts) -> None:
    server = await start("-js", config='authorization { token: "t0ken" }')

    async with opened(Nats(server.url_of("t0ken@"))) as connection:
        assert not connection.closed
    with pytest.raises(BrokerUnavailable, match=r"\(token\)") as caught:
        await Nats(server.url_of("wr0ng@")).connect()

    assert "wr0ng" not in str(caught.value)


async def test_tls_is_not_left_out_silently() -> None:
    with pytest.raises(BrokerUnavailable, match=r"offers no TLS: .* write nats:// in url="):
        await Nats(URL.replace("nats://", "tls://")).connect()


async def test_disabled_jetstream_is_named(start: Starts) -> None:
    server = await start()

    with pytest.raises(BrokerUnavailable, match=rf"JetStream is disabled at 127.0.0.1:{server.port}.*nats-server -js"):
        await Nats(server.url).connect()


async def test_one_who_may_only_send_sends_and_is_told_at_once_where_it_may_not(start: Starts) -> None:
    server = await start("-js", config=USERS)
    async with opened(
        Nats(server.url_of("admin:s3cret%40home@"), stream="orders", subjects=["orders.>"], declare=True)
    ) as admin:
        await admin.declare()

    async with opened(Nats(server.url_of("shop:pw@"))) as shop, asyncio.timeout(5):
        denied = message(1)._replace(topic="orders.Cancelled")
        first, second, third = await shop.send([message(0), denied, message(2)], WAIT)

    assert (first, third) == (SENT, SENT)
    assert second.status == "later"
    assert "permissions violation" in second.reason
    assert "user 'shop'" in second.reason


@pytest.mark.parametrize("body", [b"{}", b"x" * 900_000], ids=["small", "more than the socket takes"])
async def test_a_silent_server_ends_a_send_in_time_and_a_close_too(start: Starts, body: bytes) -> None:
    server = await start("-js")
    broker = Nats(server.url, stream="orders", subjects=["orders.>"])
    async with opened(broker) as connection:
        await connection.declare()
        assert await connection.send([message()], WAIT) == [SENT]
        server.freeze()

        async with asyncio.timeout(10):
            results = await connection.send([message(number, body=body) for number in range(20)], 0.5)
            again = await connection.send([message()], WAIT)
            await connection.close()

        await until(lambda: not _sockets(server.port))

    assert {each.status for each in results} == {"later"}
    assert f"127.0.0.1:{server.port} has not confirmed within 0.5 s" in results[0].reason
    assert connection.closed
    assert again[0].status == "later"


def _sockets(port: int) -> list[Any]:
    return [each for each in psutil.Process().net_connections("tcp") if each.raddr and each.raddr.port == port]


async def test_a_server_that_ends_ends_what_waits_for_it(start: Starts) -> None:
    server = await start("-js")
    broker = Nats(server.url, stream="orders", subjects=["orders.>"], durable="billing")
    async with opened(broker) as connection:
        await connection.declare()
        waiting = asyncio.create_task(connection.receive(1, 60))
        await connection.lag()
        server.end()

        async with asyncio.timeout(10):
            with pytest.raises(BrokerUnavailable, match=f"the connection to 127.0.0.1:{server.port} is lost"):
                await waiting
        assert connection.closed
        assert [each.status for each in await connection.send([message()], WAIT)] == ["later"]
        assert await connection.lag() is None


async def test_a_silent_server_is_lost_to_a_reader(start: Starts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.brokers.nats_connection._ANSWER_WITHIN", 0.2)
    server = await start("-js")
    broker = Nats(server.url, stream="orders", subjects=["orders.>"], durable="billing")
    async with opened(broker) as connection:
        await connection.declare()
        assert await connection.receive(1, 0.1) == []
        server.freeze()

        with pytest.raises(BrokerUnavailable, match="does not respond"):
            await connection.receive(1, 0.1)
        assert connection.closed


async def test_another_server_of_the_list_is_taken_if_one_is_away(start: Starts) -> None:
    away, here = await start("-js"), await start("-js")
    away.end()

    for _ in range(4):  # their order is random
        async with opened(Nats([away.url, here.url])) as connection:
            assert not connection.closed


# ---- options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "localhost:4222"}, "nats://user:password@host:4222"),
        ({"url": "http://localhost"}, "nats://user:password@host:4222"),
        ({"url": "nats://u:pa55@host:port"}, "nats://user:password@host:4222"),
        ({"url": []}, "pass one, or several"),
        ({"url": ["nats://a:1@x", "nats://b:1@y"]}, "with the same user"),
        ({"stream": "has.dots"}, r"stream='has\.dots'"),
        ({"stream": "s", "durable": "has blank"}, "durable='has blank'"),
        ({"durable": "billing"}, "pass stream= too"),
        ({"subjects": ["orders.>"]}, "pass stream= too"),
        ({"stream": "s", "subjects": "orders.>"}, "pass a list of subjects"),
        ({"stream": "s", "subjects": ["a..b"]}, "pass a list of subjects"),
        ({"stream": "s", "subjects": ["a.>.b"]}, "pass a list of subjects"),
        ({"subject": "orders.*"}, r"subject='orders\.\*'"),
        ({"subject": {"a": "x y"}}, "subject='x y'"),
        ({"ack_wait": "soon"}, "ack_wait='soon' is not a duration"),
        ({"ack_wait": "0s"}, "at least 1ms"),
    ],
)
def test_mistakes_are_named_where_they_are_made(options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadOption, match=words) as caught:
        Nats(**options)

    assert "pa55" not in str(caught.value)


def test_it_says_what_it_is_without_its_password() -> None:
    broker = Nats(["nats://shop:pa55@a:4222", "nats://shop:pa55@b:4222"], stream="orders", durable="billing")

    assert broker.source == "nats:orders:billing"
    assert Nats().source == ""
    assert Nats(subject="shop.{topic}").address(TOPIC) == "shop.orders.placed"
    assert "pa55" in broker.url
    assert "pa55" not in repr(broker) + broker.shown
    with pytest.raises(AttributeError):
        broker.stream = "other"  # type: ignore[misc]


async def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats.aio.client", None)
    for name in ("nats_client", "nats_connection"):
        monkeypatch.delitem(sys.modules, f"mainspring.brokers.{name}", raising=False)

    with pytest.raises(MissingExtra, match=r"pip install 'mainspring\[nats\]'"):
        await Nats(URL).connect()


def test_neither_password_nor_token_is_shown() -> None:
    assert Nats("nats://s3cr3t@h:1").shown == "nats://h:1"
    assert Nats(["nats://ann:s3cr3t@a:1", "nats://ann:s3cr3t@b:2"]).shown == "nats://a:1, nats://b:2"
