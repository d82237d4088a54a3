"""Bytes that no handler can read end with the dead letters, and their neighbours do not notice."""

import random
from uuid import uuid4

from mainspring.app.config import Options
from mainspring.app.storages import open_storage, read_url
from mainspring.model.message import Draft
from tests.faults.plan import GROUP, NEVER_LAPSES, TOPIC
from tests.faults.report import Report
from tests.faults.scene import Scene

_BATCH = 500
_WRONG = [b"null", b"[]", b'"text"', b"1.5", b"true", b"{}", b'{"n":"x"}', b'{"n":null}', b'{"n":1,"act":"fly"}']


def _malformed(chance: random.Random) -> tuple[bytes, str]:
    """A payload that is not a Job, and a content type that may or may not fit."""
    depth = chance.randrange(1_000, 30_000)
    payload = chance.choice(
        [
            b"",
            chance.randbytes(chance.randrange(1, 300)),
            b"\0" * chance.randrange(1, 50),
            b"[" * depth + b"]" * depth,
            b'{"n":' * depth,
            b'{"n": 1, "act": "nap\xff\xfe"}',
            b'{"n": ' + b"9" * chance.randrange(4_500, 9_000) + chance.choice([b"}", b".5}", b"e9}"]),
            chance.choice(_WRONG),
        ]
    )
    return payload, chance.choice(
        ["application/json"] * 8 + ["application/octet-stream", "text/plain", "none such", ""]
    )


async def test_malformed_payloads_are_dead_lettered_and_their_neighbours_are_handled(
    scene: Scene, report: Report, large: bool
) -> None:
    count = 10_000 if large else 2_000
    (worker,) = await scene.workers(1, retry="none", concurrency=50, claim_time=NEVER_LAPSES)
    drafts = []
    for _ in range(count):
        payload, content_type = _malformed(scene.chance)
        drafts.append(Draft(uuid4(), TOPIC, payload, content_type, group=GROUP))
    storage, _ = open_storage(read_url(scene.plan.url), Options(schema=scene.plan.schema))
    await storage.open()
    try:
        async with scene.publishing() as app:
            for start in range(0, count, _BATCH):
                await storage.mailbox.publish(drafts[start : start + _BATCH])
                await scene.publish(app, scene.jobs(50))
    finally:
        await storage.close()
    await scene.drained()

    found = scene.judge()
    kinds = {each.kind for each in found.buried}
    report("malformed payloads", f"seed={scene.seed} malformed={count} kinds={sorted(kinds)}", found.line())
    assert worker.alive
    assert {each.id for each in found.buried} == {draft.id for draft in drafts}
    assert kinds == {"unreadable"}
    assert found.flawless, found
    assert found.messages == count // 10
