"""The brokers' screen: what workers report of their connections, live, and the operator's check."""

import re
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from mainspring import Mainspring
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from mainspring.model.views import Beat, BrokerLink
from tests.browser.brokered import REFUSED, between_brokers, report
from tests.browser.conftest import Opening, Sites
from tests.browser.site import VIEWER, Site
from tests.browser.test_hostile import ALL, CORPUS, _is_inert
from tests.browser.test_width import FAULTS

LONG = "of.all.regional.warehouses.and.their.carriers"


@pytest.fixture
def brokered(sites: Sites) -> Site:
    site = sites(between_brokers(), worker=False)
    site.do(report(site.app))
    return site


def cells(page: Page, name: str) -> str:
    """The text of a row, in one line."""
    return " ".join(page.locator("tr", has_text=name).inner_text().split())


def test_routes_and_intakes_are_shown_as_their_workers_report_them(brokered: Site, visit: Opening) -> None:
    page = visit(brokered, "/brokers", viewport={"width": 1440, "height": 900})
    expect(page.get_by_text("4 of 6 connected, 1 down")).to_be_visible()

    rabbit, payments = cells(page, "rabbitmq:orders.*"), cells(page, "kafka:shop:payments,refunds")

    assert "amqp://…@rabbitmq.shop.internal/ connected on 2 of 2 workers 0 81,514 0 6 3" in rabbit
    assert "connected on 1 of 2 workers 4 reconnects 1,482 54,202 54,236 34 –" in payments
    assert "idle not used by 2 workers" in cells(page, "nats:reports.made")
    assert re.search(r"down on 0 of 2 workers 214 3 min \d+ s 18,620 82 0", cells(page, "redis:prices.#"))
    expect(page.get_by_role("alert")).to_contain_text("redis:prices.# is not connected on 2 of 2 workers, for 3 min")
    expect(page.get_by_role("alert")).to_contain_text(REFUSED)
    expect(page.locator("body")).not_to_contain_text("s3cr3t")


def test_a_row_leads_to_the_consumer_its_backlog_and_its_dead_letters(brokered: Site, visit: Opening) -> None:
    page = visit(brokered, "/brokers")
    row = page.locator("tr", has_text="rabbitmq:orders.*")

    row.get_by_role("link", name="3", exact=True).click()
    expect(page.get_by_text("no queue is bound for 'orders.cancelled'").first).to_be_visible()
    page.go_back()
    page.locator("tr", has_text="redis:prices.#").get_by_role("link", name="214").click()
    expect(page.get_by_role("link", name="prices.changed").first).to_be_visible()
    page.go_back()
    row.get_by_role("link", name="rabbitmq:orders.*").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("rabbitmq:orders.*")


def test_what_a_worker_reports_appears_without_a_reload(brokered: Site, visit: Opening) -> None:
    page = visit(brokered, "/brokers")
    expect(page.get_by_text("4 of 6 connected, 1 down")).to_be_visible()

    async def recover() -> None:
        storage = await brokered.app._connection.storage("the test")
        for each in (await storage.ledger.roster()).workers:
            links = tuple(replace(link, connected=True, error=None, down_for=None) for link in each.links)
            beat = Beat(each.name, each.app, each.host, each.pid, each.groups, 0, each.bell, links=links)
            await storage.upkeep.beat(beat)

    brokered.do(recover())

    expect(page.get_by_text("6 of 6 connected", exact=True)).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_an_operator_checks_the_brokers_and_a_viewer_cannot(sites: Sites, visit: Opening) -> None:
    queues, away = MemoryQueues({"returns": []}), MemoryQueues({})
    away.fail("nothing listens there: check the url")
    app = Mainspring("memory://", name="shop")
    app.route("prices.*", to=MemoryBroker(away), group="prices")
    app.intake(MemoryBroker(queues, read="returns"))
    site = sites(app, worker=False)
    page = visit(site, "/brokers")

    page.get_by_role("button", name="Check").click()
    checked = page.locator("section", has_text="Checked: 1 of 2 with problems")
    expect(checked).to_contain_text("nothing listens there: check the url")
    expect(checked).to_contain_text(re.compile(r"memory responded in .*, 0 waiting there"))
    checked.get_by_role("button", name="Dismiss").click()
    expect(checked).to_have_count(0)
    seen = visit(site, "/brokers", token=VIEWER)

    expect(seen.get_by_text("0 of 2 connected, 2 without a worker")).to_be_visible()
    expect(seen.get_by_role("button", name="Check")).to_have_count(0)


@pytest.mark.parametrize("width", [1440, 1200, 390])
def test_nothing_is_cut_or_drawn_over(brokered: Site, visit: Opening, width: int) -> None:
    brokered.do(_lengthen(brokered.app))
    page = visit(brokered, "/brokers", viewport={"width": width, "height": 844}, is_mobile=width == 390)
    expect(page.get_by_text("4 of 7 connected, 2 down")).to_be_visible()

    assert page.evaluate(FAULTS) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


async def _lengthen(app: Mainspring) -> None:
    storage = await app._connection.storage("the test")
    (first, *_) = (await storage.ledger.roster()).workers
    name = f"rabbitmq:{LONG}"
    bare = Mainspring("memory://", name="shop")
    bare.route(LONG, to=MemoryBroker(MemoryQueues({})), group=name)
    await storage.upkeep.declare([each.declaration("shop") for each in bare._code.consumers])
    error = "connection to message-broker-of-all-warehouses.internal.example.com:5671 was refused after 30 seconds"
    link = BrokerLink(name, "out", connected=False, error=error, down_for=90_000.0, counts={"sent": 123_456_789})
    groups, links = (*first.groups, name), (*first.links, link)
    await storage.upkeep.beat(Beat(first.name, first.app, first.host, first.pid, groups, 0, first.bell, links=links))


def test_hostile_text_of_brokers_is_inert(sites: Sites, visit: Opening) -> None:
    away = MemoryQueues({})
    away.fail(ALL)
    app = Mainspring("memory://", name="shop")
    group = "<img src=x onerror=window.pwned=10>"
    app.route("prices.*", to=MemoryBroker(away), group=group)
    site = sites(app, worker=False)

    async def store() -> None:
        await app.declare()
        storage = await app._connection.storage("the test")
        link = BrokerLink(group, "out", connected=False, error=ALL, down_for=3.0, counts={CORPUS[0]: 1})
        await storage.upkeep.beat(Beat("shop/w", "shop", CORPUS[1], 1, (group,), 0, "poll", links=(link,)))

    site.do(store())
    page = visit(site, "/brokers")
    expect(page.get_by_role("alert")).to_contain_text("window.pwned=1")
    _is_inert(page)
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_text("Checked: 1 of 1 with problems")).to_be_visible()

    _is_inert(page)
