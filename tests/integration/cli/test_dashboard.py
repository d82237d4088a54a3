"""`dashboard`: serves, says where, and refuses to be seen by whom it should not; `worker --probe` beside a worker."""

import re
import signal
from pathlib import Path

import httpx2
import pytest

from mainspring.dashboard.api import TABLE
from tests.dashboard.proxied import proxied
from tests.integration.cli.shell import Shell, line_with, stop

OPERATOR = "an-operator-of-this-test"
VIEWER = "one-of-the-viewers-of-this-test"


def _address(line: str) -> str:
    found = re.search(r"http://[^\s]+", line)
    assert found is not None, line
    return found[0]


def test_the_developer_is_an_operator_at_a_click(shell: Shell) -> None:
    shell("migrate", "--app", "shop:app")
    with shell.started("dashboard", "shop:app", "--port", "0", anew=True) as dashboard:
        address = _address(line_with(dashboard, "as operator"))
        base, _, token = address.partition("/login#token=")
        with httpx2.Client(base_url=base, headers={"Origin": base}) as client:
            stranger = client.get("/api/overview").status_code
            client.post("/api/login", json={"token": token})
            session = client.get("/api/session").json()
            seen = client.get("/api/overview")
            bent = client.get("/api/session", headers={"Host": "evil.example"}).status_code

        ended = stop(dashboard)

    assert len(token) >= 32
    assert stranger == 401
    assert (session["role"], session["app"]) == ("operator", "shop")
    assert seen.status_code == 200
    assert bent == 421
    assert (ended.code, ended.err) == (0, "")


def test_a_dashboard_of_a_url_creates_and_freezes_no_schedules(shell: Shell) -> None:
    shell("migrate", "--app", "shop:app")
    with shell.started("dashboard", "--url", f"sqlite:///{shell.directory / 'shop.db'}", "--port", "0") as dashboard:
        base, _, token = _address(line_with(dashboard, "as operator")).partition("/login#token=")
        with httpx2.Client(base_url=base, headers={"Authorization": f"Bearer {token}"}) as client:
            wish = {"name": "s1", "rhythm": "every 1s", "topic": "orders.placed"}
            answers = [client.post("/api/schedules/create", json=wish), client.post("/api/schedules/freeze", json={})]
        stop(dashboard)

    assert [each.status_code for each in answers] == [409, 409]
    assert "mainspring dashboard --app MODULE:APP" in answers[0].json()["error"]["message"]


def test_every_run_has_a_token_of_its_own(shell: Shell) -> None:
    tokens = []
    for _ in range(2):
        with shell.started("dashboard", "shop:app", "--port", "0") as dashboard:
            tokens.append(_address(line_with(dashboard, "as operator")).partition("#token=")[2])
            stop(dashboard, signal.SIGINT)

    assert len(set(tokens)) == 2


def test_tokens_of_the_environment_are_not_printed(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "operator.token"
    file.write_text(OPERATOR)
    shell.environment["MAINSPRING_DASHBOARD_OPERATOR_TOKEN_FILE"] = str(file)
    shell.environment["MAINSPRING_DASHBOARD_VIEWER_TOKEN"] = VIEWER
    with shell.started("dashboard", "shop:app", "--port", "0", "--host", "0.0.0.0") as dashboard:
        said = line_with(dashboard, "mainspring dashboard")
        base = _address(said).replace("0.0.0.0", "127.0.0.1").rstrip("/")
        roles = [
            httpx2.get(f"{base}/api/session", headers={"Authorization": f"Bearer {token}"}).json()["role"]
            for token in (OPERATOR, VIEWER)
        ]
        ended = stop(dashboard)

    assert roles == ["operator", "viewer"]
    assert OPERATOR not in said + ended.out + ended.err
    assert VIEWER not in said + ended.out + ended.err


def test_read_only_lets_viewers_in_and_no_operator(shell: Shell) -> None:
    shell("migrate", "--app", "shop:app")
    shell.environment["MAINSPRING_DASHBOARD_OPERATOR_TOKEN"] = OPERATOR
    with shell.started("dashboard", "shop:app", "--port", "0", "--read-only") as dashboard:
        base, _, token = _address(line_with(dashboard, "as viewer")).partition("/login#token=")
        headers = {"Origin": base, "Authorization": f"Bearer {token}"}
        session = httpx2.get(f"{base}/api/session", headers=headers).json()
        changed = httpx2.post(f"{base}/api/schedules/freeze", json={}, headers=headers)
        operator = httpx2.get(f"{base}/api/session", headers={"Authorization": f"Bearer {OPERATOR}"})
        stop(dashboard)

    assert session["role"] == "viewer"
    assert changed.status_code == 403
    assert operator.status_code == 401


@pytest.mark.parametrize("arguments", [(), ("--read-only",)])
def test_through_a_proxy_that_adds_no_header_strangers_see_no_more_than_the_login(
    shell: Shell, arguments: tuple[str, ...]
) -> None:
    shell("migrate", "--app", "shop:app")
    with shell.started("dashboard", "shop:app", "--port", "0", *arguments) as dashboard:
        base, _, token = _address(line_with(dashboard, "mainspring dashboard")).partition("/login#token=")
        with proxied(base.rstrip("/")) as outside, httpx2.Client(base_url=outside) as stranger:
            paths = ["/metrics", "/api/openapi.json"]
            paths += [route.path for route in TABLE if route.method == "GET" and route.role is not None]
            shown = {path: stranger.get(path).status_code for path in paths}
            session = stranger.get("/api/session").json()
        stop(dashboard)

    assert {path: status for path, status in shown.items() if status != 401} == {}
    assert (session["role"], session["user"]) == (None, None)
    assert len(token) >= 32


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--host", "0.0.0.0"), "set MAINSPRING_DASHBOARD_OPERATOR_TOKEN"),
        (("--host", "::", "--read-only"), "set MAINSPRING_DASHBOARD_VIEWER_TOKEN"),
        (("--host", "0.0.0.0", "--port", "0"), "there is no authentication"),
        (("--port", "70000"), "between 0 and 65535"),
        (("--root-path", "ops"), "must be a path such as '/ops'"),
        (("--app", "other:app"), "two applications"),
    ],
)
def test_what_would_be_seen_by_everybody_or_by_nobody_is_refused(
    shell: Shell, arguments: tuple[str, ...], said: str
) -> None:
    assert said in shell("dashboard", "shop:app", *arguments).complaint


def test_a_short_token_is_refused(shell: Shell) -> None:
    shell.environment["MAINSPRING_DASHBOARD_OPERATOR_TOKEN"] = "short"

    assert "at least 24 characters" in shell("dashboard", "shop:app").complaint


def test_a_port_that_is_taken_is_told(shell: Shell) -> None:
    with shell.started("dashboard", "shop:app", "--port", "0") as dashboard:
        port = _address(line_with(dashboard, "as operator")).partition("/login")[0].rpartition(":")[2]

        complaint = shell("dashboard", "shop:app", "--port", port).complaint

        stop(dashboard)
    assert complaint == f"cannot listen on 127.0.0.1:{port}: Address already in use. Choose another port"


def test_a_worker_answers_probes_from_its_start_to_its_end(shell: Shell) -> None:
    with shell.started("worker", "shop:app", "--probe", "127.0.0.1:0") as worker:
        assert worker.stdout is not None
        said = worker.stdout.readline() + worker.stdout.readline()  # which of the two comes first is not said
        base = _address(said).removesuffix("/health/ready")
        alive = httpx2.get(f"{base}/health/live")
        ready = httpx2.get(f"{base}/health/ready")
        metrics = httpx2.get(f"{base}/metrics")
        elsewhere = httpx2.get(f"{base}/api/overview")
        ended = stop(worker)

    assert "mainspring worker ready: shop:app" in said
    assert (alive.status_code, alive.json()) == (200, {"status": "alive"})
    assert ready.status_code == 200
    assert "worker" in {check["name"] for check in ready.json()["checks"]}
    assert "mainspring_published_total" in metrics.text
    assert elsewhere.status_code == 404
    assert ended.code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--probe", "9000"), "must be HOST:PORT"),
        (("--probe", "127.0.0.1:99999"), "must be HOST:PORT"),
        (("--probe", "127.0.0.1:9000", "--processes", "2"), "reports on one process"),
    ],
)
def test_a_probe_that_cannot_be_is_refused(shell: Shell, arguments: tuple[str, ...], said: str) -> None:
    assert said in shell("worker", "shop:app", *arguments).complaint
