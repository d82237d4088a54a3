"""Uniqueness in a test: what is stored is noted, what is not is not, and time passes only when the test says so."""

from mainspring import Context, Mainspring, Testing, unique


async def test_only_what_is_stored_is_published(app: Mainspring, kit: Testing) -> None:
    @app.consumer("mail.send")
    async def mail(_: int) -> None: ...

    receipts = [await app.publish("mail.send", number, key="ann", unique="key") for number in range(3)]
    await kit.drain()
    after = await app.publish("mail.send", 3, key="ann", unique="key")

    assert [each.status for each in receipts] == ["stored", "duplicate", "duplicate"]
    assert after.status == "stored"
    assert [each.payload for each in kit.published()] == [0, 3]


async def test_the_last_of_several_is_run_when_it_has_been_quiet_for_long_enough(app: Mainspring, kit: Testing) -> None:
    seen: list[str] = []

    @app.consumer("search.index")
    async def index(text: str) -> None:
        seen.append(text)

    for text in ("d", "dr", "draft"):
        await app.publish("search.index", text, key="doc:7", delay="5s", unique=unique(keep="last"))
        await kit.advance("4s")
    before = list(seen)
    await kit.advance("1s")

    assert (before, seen) == ([], ["draft"])


async def test_a_window_is_over_when_the_test_lets_it_pass(app: Mainspring, kit: Testing) -> None:
    @app.consumer("mail.send")
    async def mail(_: int) -> None: ...

    async def send() -> str:
        return (await mail.send(1, unique=unique("payload", scope="10m"))).status

    first = await send()
    await kit.advance("599s")
    within = await send()
    await kit.advance("1s")

    assert (first, within, await send()) == ("stored", "duplicate", "stored")


async def test_with_any_transaction_it_is_noted_once(app: Mainspring, kit: Testing) -> None:
    @app.consumer("mail.send")
    async def mail(_: int) -> None: ...

    awaited = [await app.publish("mail.send", 1, unique="payload", tx=object()) for _ in range(2)]
    blocking = [app.sync.publish("mail.send", 1, unique="payload", tx=object()) for _ in range(2)]

    assert [each.status for each in (*awaited, *blocking)] == ["stored", "duplicate", "duplicate", "duplicate"]
    assert len(kit.published()) == 1


def test_a_blocking_test_needs_no_loop(app: Mainspring, kit: Testing) -> None:
    @app.consumer("mail.send")
    def mail(_: int) -> None: ...

    first = mail.sync.send(1, key="ann", unique="key")
    second = mail.sync.send(2, key="ann", unique="key")

    assert (first.status, second.status, second.id) == ("stored", "duplicate", first.id)


async def test_a_handler_is_not_in_the_way_of_its_own_successor(app: Mainspring, kit: Testing) -> None:
    statuses: list[str] = []

    @app.consumer("poll")
    async def poll(round: int, ctx: Context) -> None:
        if round < 2:
            again = unique(scope="pending")
            for _ in range(2):
                receipt = await ctx.publish("poll", round + 1, key="one", unique=again)
                statuses.append(receipt.status)

    await app.publish("poll", 0, key="one", unique=unique(scope="pending"))
    await kit.drain()

    assert statuses == ["stored", "duplicate"] * 2
