"""The layout on a small laptop: nothing is cut, squeezed out or drawn over something else, however long names are."""

from playwright.sync_api import Page

from mainspring import Mainspring
from tests.browser.conftest import Opening
from tests.browser.site import Site, walk
from tests.browser.test_screens import SCREENS, _shows

LONG = "reports.weekly.of.all.regional.warehouses"
# What is wider than its box without saying so by an ellipsis, and texts of a list that lie on each other.
FAULTS = """() => {
  const wide = (each) => each.scrollWidth > each.clientWidth + 1;
  const shown = (each) => `${each.tagName} ${each.className}: ${each.textContent.slice(0, 60)}`;
  const all = (which) => [...document.querySelectorAll(which)].filter((each) => each.offsetParent);
  const boxes = all(".scroll, .head, .filters, .card > header, td:not(.fill), dd, .tile");
  const squeezed = all("td.fill").filter((each) => each.clientWidth < 60);
  const place = (each) => {
    const text = document.createRange();
    text.selectNodeContents(each);
    return text.getBoundingClientRect();
  };
  const before = (one, other) => one.right <= other.left + 1 || one.bottom <= other.top + 1;
  const meet = (one, other) => !before(one, other) && !before(other, one);
  const overlapping = all(".list > li").filter((row) => {
    const texts = [...row.querySelectorAll("*")].filter((each) => !each.children.length && !each.closest(".cut"));
    const places = texts.filter((each) => each.textContent).map(place);
    return places.some((one, index) => places.slice(index + 1).some((other) => meet(one, other)));
  });
  return [...boxes.filter(wide), ...squeezed, ...overlapping].map(shown);
}"""


async def _lengthen(app: Mainspring) -> None:
    zone, by = "America/Argentina/Buenos_Aires", "operator-with-a-long-name@warehouse.example.com"
    await app.schedules.put(LONG, "*/15 8-18 * * mon-fri", "ship", {"parcel": 1}, timezone=zone, by=by)
    await app.publish("warehouse.inventory.recounted", {"text": "x" * 300}, key=f"customer:4711:{LONG}", delay="1h")
    await app.leases.acquire(
        "warehouses.inventory.of.all.regions", "5m", holder="import-worker-7f9c4d.warehouse.internal"
    )
    text = "connection to payment-gateway.internal.example.com:8443 was refused after 30 seconds"
    await app.publish("orders.placed", {"order": 7, "fail": text}, key="order:7")


def _faults(page: Page, path: str, texts: list[str]) -> list[str]:
    walk(page, path)
    _shows(page, texts[-1:])
    return [f"{path}: {each}" for each in page.evaluate(FAULTS)]


def test_nothing_is_cut_or_drawn_over_at_1200_pixels(site: Site, visit: Opening) -> None:
    site.do(_lengthen(site.app))
    page = visit(site, viewport={"width": 1200, "height": 800})

    faults = [each for path, texts in SCREENS.items() for each in _faults(page, path, texts)]
    faults += _faults(page, f"/schedules/view?name={LONG}", [LONG])

    assert faults == []
