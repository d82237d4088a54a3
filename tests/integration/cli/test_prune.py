"""`prune`: finished records older than their retention are deleted."""

from mainspring import Mainspring
from tests.integration.cli.shell import Shell


def test_what_is_older_goes_and_is_counted(stocked: Shell) -> None:
    kept, asked, pruned, again = stocked.several(
        ("prune", "--yes", "--json"),
        ("prune", "--dead", "0s"),
        ("prune", "--done", "0s", "--failures", "0s", "--dead", "0s", "--parked", "0s", "--audit", "0s", "--yes"),
        ("prune", "--dead", "0s", "--yes", "--json"),
    )

    counts = {line.split(maxsplit=1)[1].split("  ")[0]: int(line.split()[0]) for line in pruned.out.splitlines()[1:]}
    assert kept.json["total"] == 0
    assert "successful runs after 7d, failed runs after 30d, dead letters after 0s" in asked.complaint
    assert (counts["dead letters"], counts["parked messages"]) == (2, 1)
    assert counts["runs"] >= 3
    assert "1d" in pruned.out.splitlines()[1]
    assert again.json["dead"] == 0
    assert stocked("dead", "list", "--json").json == []


def test_it_goes_by_the_retention_of_the_app_and_forever_keeps(stocked: Shell) -> None:
    (stocked.directory / "mainspring.toml").write_text('[retention]\ndead = "0s"\n')
    asked, kept, pruned, refused = stocked.several(
        ("prune",),
        ("prune", "--dead", "forever", "--yes", "--json"),
        ("prune", "--yes", "--json"),
        ("prune", "--dead", "5"),
    )

    assert "dead letters after 0s" in asked.complaint
    assert (kept.json["dead"], pruned.json["dead"]) == (0, 2)
    assert "dead='5' is not a duration" in refused.complaint


def test_nothing_is_removed_by_a_no(stocked: Shell) -> None:
    ended = stocked.on_terminal("prune", "--dead", "0s", typed="n\n")

    assert (ended.code, "Nothing removed." in ended.out) == (1, True)
    assert len(stocked("dead", "list", "--json").json) == 2


def test_topics_are_kept_as_the_app_says_unless_told_otherwise(stocked: Shell) -> None:
    (stocked.directory / "mainspring.toml").write_text(
        '[retention.topics]\n"orders.*" = { dead = "90d", parked = "1d" }\n'
    )
    asked, told, kept, others, pruned = stocked.several(
        ("prune", "--done", "0s"),
        ("prune", "--dead", "0s"),
        ("prune", "--yes", "--json"),
        ("prune", "--dead", "0s", "--topic", "payments.#", "--yes", "--json"),
        ("prune", "--dead", "0s", "--topic", "orders.*", "--yes", "--json"),
    )

    assert "; of orders.* dead letters after 90d, parked messages after 1d?" in asked.complaint
    assert "dead letters after 0s, parked messages after 7d" in told.complaint
    assert "; of orders.* parked messages after 1d?" in told.complaint
    assert (kept.json["dead"], others.json["dead"], pruned.json["dead"]) == (0, 0, 2)


def test_who_pruned_what_is_in_the_audit_log(stocked: Shell) -> None:
    stocked.several(("prune", "--dead", "0s", "--topic", "orders.*", "--yes"), ("prune", "--dead", "0s", "--yes"))

    app = Mainspring(f"sqlite:///{stocked.directory / 'shop.db'}").sync
    lines = [line for line in app.audit() if line.action == "prune"]
    app.close()

    assert [(line.subject, line.detail) for line in lines] == [("orders.*", "dead 2")]
    assert lines[0].by.endswith("(cli)")
