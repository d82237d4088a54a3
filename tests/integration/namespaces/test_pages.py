"""The same for the dashboard: what it reads is of its app's namespace."""

import msgspec
import pytest

from mainspring.dashboard import Dashboard
from mainspring.dashboard.api import TABLE
from tests.dashboard.scene import VIEWER, client_of
from tests.integration.namespaces.report import note
from tests.integration.namespaces.world import DEAD, MINE, THEIRS, Place, shown, stock

READ = [route for route in TABLE if route.method == "GET" and not route.only_streams]
NAMED = {"id": str(DEAD), "group": "ship", "topic": "etl", "work": "payments", "name": "weekly", "rhythm": "every 1h"}
NAMED |= {"source": "stripe", "message_id": "evt_1"}


@pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)
async def test_no_page_tells_of_another_namespace(place: Place, request: pytest.FixtureRequest) -> None:
    mine, theirs = place.app("mine", MINE), place.app("theirs", THEIRS)
    leaks: list[str] = []
    told = ""
    async with mine, theirs:
        await stock(mine, MINE)
        await stock(theirs, THEIRS)
        before = await shown(theirs), await place.tables("theirs")
        dashboard = Dashboard(mine, tokens={"viewer": VIEWER})
        async with client_of(dashboard, {"Authorization": f"Bearer {VIEWER}"}) as client:
            for route in READ:
                fields = {each.name for each in msgspec.structs.fields(route.takes) if each.required}
                query = {name: NAMED[name] for name in fields - route.in_path if name in NAMED}
                path = route.path.format(**{name: NAMED.get(name, "1") for name in route.in_path})
                answer = await client.get(path, params=query)
                assert answer.status_code in (200, 404), f"{path}: {answer.status_code} {answer.text[:200]}"
                told += answer.text
                leaks += [f"{path} tells of the other namespace"] * (THEIRS in answer.text)
        await dashboard.aclose()
        leaks += ["the other namespace has changed"] * ((await shown(theirs), await place.tables("theirs")) != before)
    note(request.node, place.engine, len(READ), len(leaks))
    assert MINE in told
    assert leaks == []
