"""Wrong tokens are answered at a bounded pace, and strangers who try lock out no one who has a right one."""

import asyncio

import httpx2
import pytest

from mainspring.dashboard.security.identity import HELD, Attempts, Tokens
from tests.dashboard.clocked import Clocked, settled
from tests.dashboard.scene import BASE, OPERATOR, VIEWER, Scene

STRANGER, OWNER = "198.51.100.7", "203.0.113.9"
Asked = list[asyncio.Task[httpx2.Response]]


@pytest.fixture
def clock(scene: Scene) -> Clocked:
    clock = Clocked()
    clock.wind(scene.dashboard)
    return clock


def _from(scene: Scene, address: str, **headers: str) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(scene.dashboard, client=(address, 50000))
    return httpx2.AsyncClient(transport=transport, base_url=BASE, headers=headers)


def _guesses(clients: list[httpx2.AsyncClient], count: int) -> Asked:
    """So many guesses, none of which waits for the one before."""
    return [
        asyncio.create_task(clients[number % len(clients)].post("/api/login", json={"token": f"guess {number}"}))
        for number in range(count)
    ]


async def _ended(clock: Clocked, asked: Asked) -> list[int]:
    await clock.turn(60.0)
    return [(await each).status_code for each in asked]


@pytest.mark.parametrize("addresses", [1, 200])
async def test_of_all_senders_together_sixteen_wrong_tokens_a_second_are_answered(
    scene: Scene, clock: Clocked, addresses: int
) -> None:
    strangers = [_from(scene, f"198.51.100.{number}") for number in range(addresses)]
    asked: Asked = []
    for _ in range(5):
        asked += _guesses(strangers, 100)
        await clock.turn(1.0)

    answers = await _ended(clock, asked)

    assert (answers.count(401), answers.count(429)) == (5 * HELD, 500 - 5 * HELD)


async def test_a_sender_that_waits_for_each_answer_guesses_once_a_second(scene: Scene, clock: Clocked) -> None:
    answered = 0

    async def guess() -> None:
        nonlocal answered
        async with _from(scene, STRANGER) as stranger:
            while True:
                await stranger.post("/api/login", json={"token": "guess"})
                answered += 1

    guessing = asyncio.create_task(guess())
    for _ in range(20):
        await clock.turn(1.0)
    guessing.cancel()

    assert 19 <= answered <= 20


@pytest.mark.parametrize("path", ["/api/overview", "/metrics", "/api/openapi.json"])
async def test_wrong_bearer_tokens_are_held_back_as_well(scene: Scene, clock: Clocked, path: str) -> None:
    async with _from(scene, STRANGER, Authorization="Bearer guess") as stranger:
        asked = [asyncio.create_task(stranger.get(path)) for _ in range(50)]
        await settled()
        at_once = [each for each in asked if each.done()]
        answers = await _ended(clock, asked)

    assert len(at_once) == 50 - HELD
    assert answers.count(401) == HELD


@pytest.mark.parametrize("owner", [STRANGER, OWNER], ids=["at their address", "at an address of its own"])
@pytest.mark.parametrize("strangers", [1, 80], ids=["one address", "a fresh address each"])
async def test_a_right_token_is_let_in_at_once_however_many_strangers_guess(
    scene: Scene, clock: Clocked, owner: str, strangers: int
) -> None:
    """Nothing was shown before, and no clock is turned while the owner asks."""
    addresses = [STRANGER, *(f"2001:db8:{number:x}::1" for number in range(1, strangers))]
    clients = [_from(scene, address) for address in addresses]
    asked: Asked = []
    let_in = []
    async with _from(scene, owner) as program:
        for number in range(6):
            asked += _guesses(clients, 100)
            await settled()
            bearer = {"Authorization": f"Bearer {(OPERATOR, VIEWER)[number % 2]}"}
            let_in.append((await program.get("/metrics", headers=bearer)).status_code)
            let_in.append((await program.post("/api/login", json={"token": OPERATOR})).status_code)
            await clock.turn(0.4)

    assert let_in == [200, 204] * 6
    assert 429 in await _ended(clock, asked)


async def test_who_mistypes_among_guesses_is_told_that_the_token_is_wrong(scene: Scene, clock: Clocked) -> None:
    async with _from(scene, STRANGER) as stranger, _from(scene, OWNER) as owner:
        asked = _guesses([stranger], 100)
        await settled()
        mistyped = await owner.post("/api/login", json={"token": OPERATOR[:-1]})
        await _ended(clock, asked)

    said = "wrong token, and too many attempts: wait 1 s"
    assert (mistyped.status_code, mistyped.json()["error"]["message"]) == (429, said)
    assert mistyped.headers["retry-after"] == "1"


async def test_a_probe_with_a_wrong_token_is_answered_at_once(scene: Scene, clock: Clocked) -> None:
    async with _from(scene, STRANGER, Authorization="Bearer wrong") as prober:
        answer = await prober.get("/health/ready")

    assert answer.status_code == 200
    assert ("unknown", "log in failed") in [(by, action) for by, action, _, _ in await scene.accesses()]


async def test_a_page_of_another_site_tries_no_token(
    scene: Scene, clock: Clocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    monkeypatch.setattr(Tokens, "role", lambda _self, token: checked.append(token))
    async with _from(scene, STRANGER, Origin="https://evil.example") as page:
        answers = [(await page.post("/api/login", json={"token": OPERATOR})).status_code for _ in range(20)]

    assert set(answers) == {403}
    assert checked == []


async def test_who_goes_away_while_held_back_leaves_room(clock: Clocked) -> None:
    attempts = Attempts(clock.sleep)
    held = [asyncio.create_task(attempts.hold()) for _ in range(HELD)]
    await settled()
    full = await attempts.hold()

    for each in held:
        each.cancel()
    await asyncio.gather(*held, return_exceptions=True)
    again = asyncio.create_task(attempts.hold())
    await clock.turn(1.0)

    assert not full
    assert await again
