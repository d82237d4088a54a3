"""The dashboard as a role that may only read: it shows every screen, and changes nothing."""

from collections.abc import Iterator

import pytest

from mainspring.dashboard import Dashboard
from mainspring.dashboard.api import TABLE
from tests.dashboard.scene import OPERATOR, VIEWER, Scene, at_work, opened, shop
from tests.dashboard.test_engines import ASKED
from tests.dashboard.wishes import RECEIVED, open_join
from tests.integration.postgres.grants import grant, login


@pytest.fixture
def reader(postgres_url: str, postgres_schema: str) -> Iterator[str]:
    with login(postgres_url, name := f"reader_{postgres_schema}") as url:
        grant(postgres_url, postgres_schema, "read", name)
        yield url


async def test_a_role_that_reads_sees_every_screen_and_changes_nothing(
    reader: str, postgres_url: str, postgres_schema: str
) -> None:
    answers = {}
    async with opened(postgres_url, schema=postgres_schema) as owners, at_work(owners):
        join = await open_join(owners)
        await owners.app.inbox.admit(RECEIVED["message_id"], RECEIVED["source"], group=RECEIVED["group"])
        async with shop(reader, schema=postgres_schema) as app:
            scene = Scene(app, Dashboard(app, tokens={"operator": OPERATOR, "viewer": VIEWER}))
            async with scene.viewer() as client:
                for route in TABLE:
                    if not route.changes and not route.only_streams and route.path != "/api/bulk/{id}":
                        id = join if route.path.startswith("/api/joins") else owners.dead[0]
                        path = route.path.replace("{id}", str(id))
                        answers[route.path] = await client.get(path, params=ASKED.get(route.path, {}))
            async with scene.operator() as client:
                refused = await client.post("/api/consumers/pause", json={"group": "ship"})
            await scene.dashboard.aclose()

    assert {path: answer.status_code for path, answer in answers.items() if answer.status_code != 200} == {}
    assert (refused.status_code, refused.json()["error"]["code"]) == (500, "not_granted")
    assert "permission denied for table audit (42501) in pause" in refused.json()["error"]["message"]
    assert "Retry-After" not in refused.headers
