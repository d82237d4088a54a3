"""Logins, logouts and refusals are in the log and in the audit, however many strangers try."""

import asyncio
import logging
from typing import Any

import httpx2
import pytest

from mainspring.dashboard import Identity
from mainspring.dashboard.security.access_log import AccessLog, Refused
from tests.dashboard.browser import Browser
from tests.dashboard.clocked import Clocked, settled
from tests.dashboard.scene import BASE, CSRF, OPERATOR, VIEWER, Scene, opened

GUESS = "a-guess-that-is-not-to-be-read"


@pytest.fixture(autouse=True)
def _all_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mainspring.dashboard")


class Audit:
    """What was noted."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, ...]] = []

    async def __call__(self, *line: str) -> None:
        self.lines.append(line)


def _guess(peer: str) -> Refused:
    return Refused("log in failed", "unknown", "POST /api/login", "wrong token", peer)


async def test_who_logs_in_and_out_is_noted_with_role_and_address(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    browser = Browser(scene.dashboard)
    await browser.log_in(OPERATOR)
    await browser.post("/api/logout")

    assert await scene.accesses() == [
        ("operator (dashboard)", "log in", "dashboard", "from 127.0.0.1"),
        ("operator (dashboard)", "log out", "dashboard", "from 127.0.0.1"),
    ]
    assert "log in: operator, from 127.0.0.1" in caplog.text
    assert "log out: operator, from 127.0.0.1" in caplog.text
    assert OPERATOR not in caplog.text


async def test_a_wrong_token_is_noted_and_is_in_no_line(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    async with scene.client() as stranger:
        await stranger.post("/api/login", json={"token": GUESS})
        await stranger.get("/api/overview", headers={"Authorization": f"Bearer {GUESS}"})
        await stranger.get("/health/ready", headers={"Authorization": f"Bearer {GUESS}"})
    at_once = await scene.accesses()
    await scene.dashboard.aclose()
    told = await scene.accesses()

    said = "the token is wrong"
    assert at_once == [("unknown", "log in failed", "POST /api/login", f"{said}, from 127.0.0.1")]
    assert told[1:] == [
        (
            "unknown",
            "log in failed",
            "GET /health/ready",
            f"2 more times within 1 min, from 127.0.0.1; last: {said}",
        )
    ]
    assert "log in failed: POST /api/login by unknown" in caplog.text
    assert GUESS not in caplog.text + str(told)


@pytest.mark.parametrize(
    ("role", "headers", "why"),
    [
        (VIEWER, {}, "requires role 'operator'; viewer has role 'viewer'"),
        (OPERATOR, {CSRF: None}, "the header X-Mainspring-Csrf is missing or outdated"),
        (OPERATOR, {"Origin": "https://evil.example"}, "cross-origin request"),
    ],
)
async def test_a_change_that_is_refused_is_noted_with_who_wanted_it(
    scene: Scene, role: str, headers: dict[str, str], why: str
) -> None:
    browser = Browser(scene.dashboard)
    await browser.log_in(role)

    answer = await browser.post("/api/consumers/pause", {"group": "ship"}, **headers)

    name = "viewer" if role == VIEWER else "operator"
    by, action, subject, detail = (await scene.accesses())[-1]
    assert answer.status_code == 403
    assert why in answer.json()["error"]["message"]
    assert (by, action, subject) == (f"{name} (dashboard)", "refused", "POST /api/consumers/pause")
    assert why in detail
    assert detail.endswith(", from 127.0.0.1")


async def test_a_change_by_a_stranger_is_told_what_to_do_and_noted(scene: Scene) -> None:
    async with scene.client() as stranger:
        answer = await stranger.post("/api/consumers/pause", json={"group": "ship"})

    said = "authentication required: log in, or send a token as `Authorization: Bearer …`"
    assert (answer.status_code, answer.json()["error"]["message"]) == (401, said)
    ((by, action, _, detail),) = await scene.accesses()
    assert (by, action, detail) == ("unknown", "refused", "no login, from 127.0.0.1")


async def test_who_is_known_by_the_host_application_is_named() -> None:
    async def authenticate(_request: Any) -> Identity:
        return Identity("ann", "viewer")

    async with opened(dead=0, tokens=None, authenticate=authenticate) as scene:
        answer = await Browser(scene.dashboard).post("/api/consumers/pause", {"group": "ship"})
        ((by, _, _, detail),) = await scene.accesses()

    assert answer.json()["error"]["message"] == "requires role 'operator'; ann has role 'viewer'"
    assert by == "ann (dashboard)"
    assert detail.startswith("requires role 'operator'; ann has role 'viewer'")


async def test_what_is_only_looked_at_and_refused_is_not_noted(scene: Scene) -> None:
    async with scene.client() as stranger:
        await stranger.get("/api/overview")
        await stranger.get("/api/none")
        await stranger.post("/api/none")

    assert await scene.accesses() == []


async def test_strangers_are_counted_and_do_not_fill_the_audit(caplog: pytest.LogCaptureFixture) -> None:
    audit, clock = Audit(), Clocked()
    log = AccessLog(audit, clock.later, clock)
    spans: list[float] = []
    for _ in range(9):
        for _ in range(1000):
            log.refused(_guess("198.51.100.7"))
        spans.append(clock.spans[-1] if spans else clock.spans[0])
        await clock.turn(spans[-1])
    await clock.turn(3600)
    log.refused(_guess("198.51.100.7"))
    await log.aclose()

    details = [detail for _, _, _, detail in audit.lines]
    assert spans == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert details[0] == "wrong token, from 198.51.100.7"
    assert details[1] == "999 more times within 1 min, from 198.51.100.7; last: wrong token"
    assert details[2] == "1,000 more times within 2 min, from 198.51.100.7; last: wrong token"
    assert details[-1] == "wrong token, from 198.51.100.7", "it had ended, and begins again"
    assert len(details) == len(caplog.records) == 11


async def test_however_many_addresses_try_there_are_few_lines() -> None:
    audit, clock = Audit(), Clocked()
    log = AccessLog(audit, clock.later, clock)

    for number in range(5000):
        log.refused(_guess(f"198.51.{number // 250}.{number % 250}"))
    await log.aclose()

    assert len(audit.lines) == 16 + 2
    assert audit.lines[-1][-1] == "4,983 more times within 1 min, from other addresses; last: wrong token"


async def test_a_fresh_address_for_every_guess_fills_no_more_than_sixty_lines_an_hour_and_a_count() -> None:
    audit, clock = Audit(), Clocked()
    log = AccessLog(audit, clock.later, clock)
    ann = Refused("refused", "ann (dashboard)", "POST /api/pause", "requires role 'operator'", "192.0.2.1")

    for number in range(2 * 360):
        for guess in range(3):
            log.refused(_guess(f"2001:db8:{number:x}:{guess}::/64"))
        await clock.turn(10.0)
    log.refused(ann)
    await log.aclose()

    unknown = [detail for _, _, by, detail in audit.lines if by == "unknown"]
    assert len(unknown) <= 2 * 61 + 1
    told = [int(d.split()[0].replace(",", "")) if "more times" in d else 1 for d in unknown]
    assert sum(told) == 2 * 360 * 3, "each is written or counted"
    assert unknown[60].endswith("more times within 60 min, from other addresses; last: wrong token")
    assert "ann (dashboard)" in [by for _, _, by, _ in audit.lines], "who is known is written all the same"


async def test_who_is_known_is_written_at_once_where_strangers_have_used_up_the_lines_of_their_hour() -> None:
    audit, clock = Audit(), Clocked()
    log = AccessLog(audit, clock.later, clock)
    for number in range(5):
        for guess in range(16):
            log.refused(_guess(f"198.51.{number}.{guess}"))
        await clock.turn(60.0)
    strangers = len(audit.lines)

    log.refused(_guess("192.0.2.9"))
    log.refused(Refused("refused", "ann (dashboard)", "POST /api/pause", "requires role 'operator'", "192.0.2.1"))
    await settled()
    known = audit.lines[strangers:]
    await log.aclose()

    assert strangers == 60
    assert known == [("refused", "POST /api/pause", "ann (dashboard)", "requires role 'operator', from 192.0.2.1")]


def test_in_another_loop_it_starts_again_with_what_was_counted(caplog: pytest.LogCaptureFixture) -> None:
    audit = Audit()
    log = AccessLog(audit)

    async def refused_twice() -> None:
        log.refused(_guess("192.0.2.1"))
        log.refused(_guess("192.0.2.1"))
        await asyncio.wait(log._writing)

    for _ in range(3):
        asyncio.run(refused_twice())
    asyncio.run(log.aclose())

    first, again = "wrong token, from 192.0.2.1", "once more within 1 min, from 192.0.2.1; last: wrong token"
    assert [detail for _, _, _, detail in audit.lines] == [first, again] * 3


def test_the_lines_of_an_hour_are_bounded_over_all_loops_and_the_next_hour_has_its_own() -> None:
    audit, now = Audit(), 0.0
    log = AccessLog(audit, clock=lambda: now)

    async def refused() -> None:
        log.refused(_guess("192.0.2.1"))
        if log._writing:
            await asyncio.wait(log._writing)

    for _ in range(100):
        asyncio.run(refused())
    within = len(audit.lines)
    now = 3601.0
    asyncio.run(refused())

    assert within == 60
    assert [detail for _, _, _, detail in audit.lines[60:]] == [
        "40 more times within 60 min, from other addresses; last: wrong token",
        "wrong token, from 192.0.2.1",
    ]


async def test_a_login_succeeds_although_the_audit_cannot_be_written(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    async def away(*_: Any, **__: Any) -> None:
        raise ConnectionError("postgresql://ada:hunter2@db is away")

    scene.app.note = away  # type: ignore[method-assign]
    async with scene.client(Origin=BASE) as client:
        answer = await client.post("/api/login", json={"token": OPERATOR})

    assert answer.status_code == 204
    assert "log in was not recorded in the audit: postgresql://…@db is away" in caplog.text


async def test_a_dashboard_that_nothing_has_opened_notes_its_logins() -> None:
    from mainspring.dashboard import Dashboard
    from tests.dashboard.scene import shop

    app = shop()
    dashboard = Dashboard(app, tokens={"operator": OPERATOR})
    transport = httpx2.ASGITransport(dashboard, client=("192.0.2.7", 1))
    async with httpx2.AsyncClient(transport=transport, base_url=BASE) as client:
        await client.post("/api/login", json={"token": OPERATOR})
    (line,) = await app.audit()
    await dashboard.aclose()

    assert (line.action, line.detail) == ("log in", "from 192.0.2.7")


async def test_logins_are_found_in_the_audit(scene: Scene) -> None:
    await Browser(scene.dashboard).log_in(OPERATOR)
    async with scene.client() as stranger, scene.viewer() as viewer:
        await stranger.post("/api/login", json={"token": GUESS})
        await scene.accesses()
        found = (await viewer.get("/api/audit", params={"find": "log in"})).json()["rows"]

    # Nothing of it looks like a secret, or it would be masked.
    assert [(row["by"], row["action"], row["detail"]) for row in found] == [
        ("unknown", "log in failed", "the token is wrong, from 127.0.0.1"),
        ("operator (dashboard)", "log in", "from 127.0.0.1"),
    ]
