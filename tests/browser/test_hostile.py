"""Hostile text in every stored string: it is shown as text, runs nowhere, and asks nobody for anything."""

import asyncio
from datetime import timedelta
from typing import Any

from playwright.sync_api import Page, expect

from mainspring import Context, Done, Mainspring, every, intervals
from tests.browser.conftest import Opening, Sites
from tests.browser.site import Site, walk

CORPUS = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=2>",
    "<svg/onload=window.pwned=3>",
    "\"><iframe srcdoc='<script>parent.pwned=4</script>'>",
    "javascript:window.pwned=5",
    "'-window.pwned--'",
    "{{constructor.constructor('window.pwned=6')()}}",
    "${window.pwned=7}",
    "<a href='javascript:window.pwned=8' id=trap>x</a>",
    "</script><script>window.pwned=9</script>",
    "<style>*{display:none}</style>",
    "<base href='https://evil.example/'>",
    "<form action='https://evil.example/'><input name=csrf></form>",
    "\u202e\u0000evil\u2028",
)
ALL = " ".join(text.replace("\u0000", "") for text in CORPUS)


def hostile() -> Mainspring:
    """An app whose names, payloads and errors are all hostile, as far as names may be."""
    app = Mainspring("memory://", name="shop", preset="development", grace="100ms", idle_poll="50ms")

    @app.consumer("orders.placed", group="<img src=x onerror=window.pwned=10>", retry=intervals())
    async def fails(order: dict[str, Any]) -> None:
        raise ValueError(order["text"])

    @app.consumer("films.rendered", group="running")
    async def says(film: dict[str, Any], ctx: Context) -> None:
        ctx.progress(film["text"])
        await asyncio.Event().wait()

    @app.consumer("notes.taken", group="noting")
    async def outputs(note: dict[str, Any]) -> Done:
        return Done(note["text"])

    @app.recurring(every("1h"), name="<script>window.pwned=11<script>", retry="none")
    async def recurring() -> None:
        raise RuntimeError(ALL)

    return app


async def store(app: Mainspring) -> None:
    """Put the corpus wherever text is stored."""
    await app.declare()  # a worker that has only just started may not have told of its schedules yet
    evil = {"text": ALL, **{text: text for text in CORPUS}}
    headers = {f"h{number}": text.replace("\u0000", "").strip() for number, text in enumerate(CORPUS)}
    await app.publish("orders.placed", evil, key=CORPUS[1], headers=headers, correlation_id=CORPUS[0])
    await app.publish("films.rendered", evil, key=CORPUS[2])
    await app.publish("notes.taken", evil)
    await app.publish("nobody.listens", evil, key=CORPUS[3])
    await app.groups.pause("noting", by=CORPUS[0], reason=ALL)
    await app.schedules.pause("<script>window.pwned=11<script>", by=CORPUS[1], reason=ALL)
    await app.schedules.trigger("<script>window.pwned=11<script>", by=CORPUS[2])
    await app.leases.acquire(CORPUS[1], timedelta(minutes=5))
    await app.leases.acquire(CORPUS[7], timedelta(minutes=5))


def _is_inert(page: Page) -> None:
    assert page.evaluate("window.pwned") is None
    foreign = "#app iframe, #app script, #app style, #app base, #trap"
    assert page.locator(foreign).count() == 0
    odd = "[...document.querySelectorAll('a[href]')].filter(a => a.origin !== location.origin).length"
    assert page.evaluate(odd) == 0


def test_hostile_text_is_inert_on_every_screen(sites: Sites, visit: Opening) -> None:
    site = sites(hostile())
    asked: list[str] = []
    site.do(store(site.app))

    async def died() -> bool:
        return len(await site.app.dead.list()) >= 2 and len(await site.app.messages.list("running")) == 1

    site.until(died)
    page = visit(site)
    page.on("request", lambda request: asked.append(request.url))

    states = ("live", "dead", "parked", "running", "done")
    screens = [
        "/",
        *(f"/messages?state={state}" for state in states),
        "/consumers",
        "/schedules",
        "/dead",
        "/leases",
    ]
    screens += ["/fanouts", "/workers", "/audit", "/schedules/view?name=%3Cscript%3Ewindow.pwned%3D11%3Cscript%3E"]
    for path in screens:
        walk(page, path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_text("Loading …")).to_have_count(0)
        _is_inert(page)
    for each in site.do(site.app.messages.list()) + site.do(site.app.dead.list()):
        walk(page, f"/messages/{each.message_id}")
        expect(page.get_by_role("main")).to_contain_text("window.pwned=")
        _is_inert(page)
    assert [url for url in asked if not url.startswith(site.address)] == []


def test_hostile_text_in_the_address_is_inert(site: Site, visit: Opening) -> None:
    page = visit(site, "/messages?topic=%3Cscript%3Ewindow.pwned%3D1%3C%2Fscript%3E&state=dead")

    expect(page.get_by_text("No matches.")).to_be_visible()

    _is_inert(page)
