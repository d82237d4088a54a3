"""Order and limits in a test: they are those of a worker, by the clock of the test."""

from mainspring import Context, Mainspring, Testing, exponential


async def test_those_behind_a_failed_message_of_their_key_wait_for_it(app: Mainspring, kit: Testing) -> None:
    seen: list[tuple[str, int]] = []

    @app.consumer("steps", ordered=True, retry=exponential("1m", jitter=0.0))
    async def follow(step: str, ctx: Context) -> None:
        seen.append((step, ctx.attempt))
        if step == "a1" and ctx.attempt == 1:
            raise ValueError("not yet")

    for step in ("a1", "a2", "b1"):
        await app.publish("steps", step, key=step[0])
    await kit.drain()
    before = list(seen)
    await kit.advance("1m")

    assert before == [("a1", 1), ("b1", 1)]
    assert seen[2:] == [("a1", 2), ("a2", 1)]


async def test_a_rate_lets_go_as_time_is_advanced(app: Mainspring, kit: Testing) -> None:
    seen: list[int] = []

    @app.consumer("calls", rate="2/1m")
    async def call(n: int) -> None:
        seen.append(n)

    for n in range(5):
        await app.publish("calls", n)
    counts = []
    for step in ("0s", "30s", "32s", "2m"):
        await kit.advance(step)
        counts.append(len(seen))

    assert counts == [2, 2, 4, 5]
