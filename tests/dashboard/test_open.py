"""Without authentication: on this machine only, and only to look."""

import httpx2
import pytest

from mainspring import Mainspring
from mainspring.dashboard import Dashboard
from mainspring.model.errors import BadOption
from tests.dashboard.scene import BASE, Scene, opened


def _client(scene: Scene, host: str = "127.0.0.1", **headers: str) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(scene.dashboard, client=(host, 50000))
    return httpx2.AsyncClient(transport=transport, base_url=BASE, headers=headers)


async def test_whoever_is_on_this_machine_may_look_and_change_nothing() -> None:
    async with opened(dead=0, tokens={}) as scene, _client(scene) as client:
        session = (await client.get("/api/session")).json()
        seen = await client.get("/api/overview")
        done = await client.post("/api/consumers/pause", json={"group": "ship"}, headers={"Origin": BASE})
        login = await client.post("/api/login", json={"token": "x"})

    assert (session["role"], session["csrf"], session["login"]) == ("viewer", None, False)
    assert seen.status_code == 200
    assert done.status_code == 403
    assert login.status_code == 404


@pytest.mark.parametrize("path", ["/", "/api/session", "/api/overview", "/static/icon.svg", "/metrics"])
async def test_other_machines_see_nothing_at_all(path: str) -> None:
    async with opened(dead=0, tokens={}) as scene, _client(scene, "192.0.2.7") as client:
        answer = await client.get(path)

    assert answer.status_code == 403
    assert "tokens=" in answer.json()["error"]["message"]


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"])
async def test_what_comes_through_a_proxy_is_not_from_this_machine(header: str) -> None:
    async with opened(dead=0, tokens={}) as scene, _client(scene, **{header: "for=192.0.2.7"}) as client:
        answer = await client.get("/api/overview")

    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8321", 200),
        ("127.0.0.1", 200),
        ("[::1]:8321", 200),
        ("shop.localhost", 200),
        ("ops.example", 200),
        ("OPS.example:443", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example:8321", 421),
        ("localhost:notaport", 421),
        ("", 421),
    ],
)
async def test_a_name_that_was_bent_to_this_machine_is_not_answered(host: str, status: int) -> None:
    async with opened(dead=0, tokens={}, hosts=["ops.example"]) as scene, _client(scene, Host=host) as client:
        answer = await client.get("/api/session")

    assert answer.status_code == status


def test_one_host_is_still_a_list() -> None:
    with pytest.raises(BadOption, match="one name"):
        Dashboard(Mainspring("memory://"), hosts="ops.example")


async def test_where_hosts_are_named_they_count_for_those_who_log_in_too() -> None:
    async with opened(dead=0, hosts=["ops.example"]) as scene:
        async with scene.client(Host="evil.example") as client:
            refused = await client.get("/api/session")
        async with scene.client(Host="ops.example") as client:
            answered = await client.get("/api/session")

    assert (refused.status_code, answered.status_code) == (421, 200)
