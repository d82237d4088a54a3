"""The command line over a fleet: one, some or all of its databases."""

import json
import shlex
import shutil
from pathlib import Path
from socket import create_server

import pytest

from tests.integration.cli.conftest import HERE
from tests.integration.cli.shell import Shell

APP = ("--app", "stores:fleet")


@pytest.fixture
def stores(shell: Shell) -> Shell:
    """Commands beside the fleets of stores.py, whose files are not there yet."""
    shutil.copy(HERE / "stores.py", shell.directory / "stores.py")
    return shell


@pytest.fixture
def opened(stores: Shell) -> Shell:
    """The same, with the tables and groups of all three."""
    assert stores("declare", "stores:fleet").code == 0
    return stores


def of(shell: Shell, **urls: str) -> Shell:
    """The fleets of stores.py but one, on these databases."""
    shell.environment["STORES"] = json.dumps(urls)
    return shell


def test_a_command_runs_on_every_database_in_the_order_of_the_fleet(opened: Shell) -> None:
    order = ("publish", "orders.placed", '{"id": 7}', *APP, "--database", "bolt")
    published, shown, as_json = opened.several(order, ("groups", "list", *APP), ("messages", "list", *APP, "--json"))

    assert published.code == 0
    blocks = [each.splitlines() for each in shown.out.split("\n\n")]
    counts = {name: next(each for each in lines if "receipt " in each).split() for name, *lines in blocks}
    assert [(name, each[3]) for name, each in counts.items()] == [
        ("acme", "0"),
        ("bolt", "1"),
        ("cask", "0"),
    ]
    assert list(as_json.json) == ["acme", "bolt", "cask"]
    assert [len(each) for each in as_json.json.values()] == [0, 1, 0]


def test_what_is_alike_in_several_databases_is_printed_once_with_the_command_for_all(opened: Shell) -> None:
    paused, again, resumed = opened.several(
        ("groups", "pause", "receipt", *APP, "--database", "b*", "--database", "cask"),
        ("groups", "pause", "receipt", *APP),
        ("groups", "resume", "receipt", "--database", "bolt", *APP),
    )

    head, text = paused.out.splitlines()
    assert head == "bolt, cask"
    assert text.endswith(f"groups resume receipt {' '.join(APP)} --database 'b*' --database cask")
    assert again.out.splitlines()[0] == "acme, bolt, cask"
    assert again.out.splitlines()[1].endswith("mainspring groups resume receipt --app stores:fleet")
    assert resumed.out == "receipt is resumed\n"


def test_one_database_is_used_as_if_it_had_been_named_alone(opened: Shell) -> None:
    stored, listed, shown = opened.several(
        ("publish", "orders.placed", "{}", *APP, "--database", "bolt"),
        ("messages", "list", *APP, "--database=bolt", "--json"),
        ("messages", "list", *APP, "--database", "cask"),
    )

    assert stored.out.startswith("stored ")
    assert [each["topic"] for each in listed.json] == ["orders.placed"]
    assert shown.out.endswith("--app stores:fleet --database cask\n")


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ([], ["acme", "bolt", "cask"]),
        (["--database", "?o*"], ["bolt"]),
        (["--database", "cask", "--database", "a*"], ["acme", "cask"]),
    ],
    ids=str,
)
def test_databases_of_a_function_are_chosen_by_name_and_pattern(
    opened: Shell, chosen: list[str], expected: list[str]
) -> None:
    opened.environment["MAINSPRING_APP"] = "stores:found"

    assert list(opened("groups", "list", "--json", *chosen).json) == expected


def test_a_failure_stops_no_other_and_the_end_says_how_to_repeat_it(stores: Shell, tmp_path: Path) -> None:
    of(stores, acme="sqlite:///acme.db", bolt=f"sqlite:///{tmp_path}/away/bolt.db", cask="sqlite:///cask.db")

    failed = stores("migrate", "stores:found", "--database", "*")
    *reported, end = failed.err.splitlines()
    again = shlex.split(end.partition(" To repeat for it: ")[2])
    (tmp_path / "away").mkdir()
    repeated = stores(*again[again.index("migrate") :])

    assert failed.code == 1
    assert failed.out.splitlines()[0].startswith("acme  applied 0001_")
    assert failed.out.splitlines()[1].startswith("cask  applied 0001_")
    assert [each.partition(": the directory")[0] for each in reported] == ["error: bolt"]
    assert end.startswith("1 of 3 databases failed. ")
    assert again[again.index("migrate") :] == ["migrate", "stores:found", "--database", "bolt"]
    assert (repeated.code, repeated.out.startswith("applied 0001_")) == (0, True)


def test_what_failed_is_left_out_of_the_json_and_named_beside_it(opened: Shell) -> None:
    published = opened("publish", "orders.placed", "{}", *APP, "--database", "bolt", "--json").json

    shown = opened("messages", "show", published["id"], *APP, "--json")

    assert list(shown.json) == ["bolt"]
    assert [each.partition(": there is no message")[0] for each in shown.err.splitlines()[:2]] == [
        "error: acme",
        "error: cask",
    ]
    assert shown.err.splitlines()[2].endswith(
        f"show {published['id']} {' '.join(APP)} --json --database acme --database cask"
    )


def test_the_worst_exit_code_of_all_is_that_of_the_command(stores: Shell) -> None:
    of(stores, acme="sqlite:///acme.db", bolt="sqlite:///bolt.db")
    stores("migrate", "stores:found", "--database", "acme")

    assert stores("health", "stores:found", "--database", "acme").code == 0
    assert stores("health", "stores:found").code == 1


def test_over_several_databases_a_confirmation_has_to_be_given_before(opened: Shell) -> None:
    asked, retired, one = opened.several(
        ("groups", "retire", "receipt", *APP),
        ("groups", "retire", "receipt", *APP, "--yes", "--database", "acme", "--database", "cask", "--json"),
        ("groups", "retire", "receipt", *APP, "--database", "bolt"),
    )

    assert asked.complaint == "this asks for confirmation, and is for 3 databases: pass --yes, or one --database NAME"
    assert retired.json == {each: {"group": "receipt", "dropped": 0} for each in ("acme", "cask")}
    assert one.complaint.endswith("It would ask: Retire receipt and drop 0 deliveries?")


MISTAKES = {
    "top stores:fleet": "this command is for one database, and 3 databases are chosen: add --database NAME",
    "publish a --app stores:fleet --database *": "add --database NAME, such as --database acme",
    "grants ann --role read --app stores:fleet": "this command is for one database",
    "messages list --cursor x --app stores:fleet": "--cursor continues the list of one database: add the --database",
    "doctor stores:fleet --mend-clock": "--mend-clock sets the clock of one file: add --database NAME",
    "groups list --app stores:fleet --database bolb": "no database of the fleet. Did you mean 'bolt'? There are: acme",
    "groups list --app stores:fleet --database eu-*": "--database 'eu-*' is no database of the fleet. There are: acme",
    "health stores:fleet --database ?olb": "--database '?olb' is no database of the fleet.",
    "fleet list stores:fleet --database bolb": "--database 'bolb' is no database of the fleet.",
    "groups list --app stores:lost": "the databases of stores:lost are not known: OSError: the registry is down",
    "groups list --app stores:app": "stores:app leads a fleet and has no database of its own. Write stores:fleet or",
    "groups list --app stores:alone --database a": "stores:alone is no fleet. Write stores:fleet or stores:found or",
    "groups list --app shop:app --database a": "shop:app is no fleet. Write the name of a Fleet(…) in module shop",
    "groups list --url sqlite:///a.db --database a": "name it by --app, or omit --database",
    "groups list --app stores:flet": "module stores has no 'flet'. Write stores:app or stores:alone or stores:fleet",
    "fleet list stores:alone": "stores:alone is an app, not a fleet. Write stores:fleet or",
    "fleet list": "no application given: write MODULE:APP",
    "publish a {} --app stores:fleet": "KeyError: 'store'. Nothing was stored. Add --database NAME, or",
    "publish a {} --app stores:found": "nothing names the database. Add --database NAME, or give the fleet a route=",
    'publish a {"store":"bolb"} --app stores:fleet': "Did you mean 'bolt'?",
}


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake_is_reported_with_what_to_type(stores: Shell, typed: str) -> None:
    assert MISTAKES[typed] in stores(*typed.split()).complaint
    assert not list(stores.directory.glob("*.db"))


def test_without_a_database_publish_asks_the_route_of_the_fleet(opened: Shell) -> None:
    shown, as_json, listed = opened.several(
        ("publish", "orders.placed", '{"store": "cask"}', *APP),
        ("publish", "orders.placed", '{"store": "bolt"}', *APP, "--delay", "1h", "--json"),
        ("messages", "list", *APP, "--json"),
    )

    assert shown.out.splitlines()[0].endswith(" in cask")
    assert as_json.json["database"] == "bolt"
    assert {name: [each["state"] for each in found] for name, found in listed.json.items()} == {
        "acme": [],
        "bolt": ["scheduled"],
        "cask": ["ready"],
    }


def test_a_payload_from_stdin_reaches_every_database(opened: Shell) -> None:
    opened("schedules", "trigger", "report", *APP, "--payload", "-", stdin='"Monday"')

    listed = opened("messages", "list", *APP, "--json").json

    assert {name: [each["preview"] for each in found] for name, found in listed.items()} == {
        each: ['"Monday"'] for each in ("acme", "bolt", "cask")
    }


def test_a_page_that_goes_on_says_in_which_database(opened: Shell) -> None:
    order = ("publish", "orders.placed", "{}", *APP, "--database", "bolt")
    *_, listed, as_json = opened.several(
        order, order, ("messages", "list", *APP, "-n", "1"), ("messages", "list", *APP, "-n", "1", "--json")
    )
    (hint,) = (each for each in listed.out.splitlines() if each.startswith("There is more"))
    following = shlex.split(hint.partition(" add ")[2])

    assert following[:3] == ["--database", "bolt", "--cursor"]
    assert as_json.err == f"bolt: {hint}\n"
    assert len(opened("messages", "list", *APP, "-n", "1", "--json", *following).json) == 1


def test_the_code_of_a_fleet_is_described_without_its_databases(stores: Shell) -> None:
    assert "orders.placed" in stores("asyncapi", "stores:lost").out
    assert stores("brokers", "check", "stores:lost").out.startswith("No brokers")


def test_a_fleet_without_databases_has_nothing_to_do(stores: Shell) -> None:
    stores.environment["STORES"] = '{"acme": "sqlite:///acme.db"}'  # not those of the first fleet

    assert stores("migrate", "stores:fleet").out == "The fleet has no databases.\n"
    assert stores("migrate", "stores:fleet", "--json").json == {}


def test_an_entry_that_cannot_be_used_is_named_beside_the_others(stores: Shell) -> None:
    of(stores, acme="sqlite:///acme.db", twin="sqlite:///acme.db")

    migrated = stores("migrate", "stores:found")

    assert migrated.out.startswith("acme  applied")
    assert migrated.err.startswith("warning: 'twin' and 'acme' are the same database, acme.db")
    assert (migrated.code, len(migrated.err.splitlines())) == (0, 1)


def test_progress_is_shown_on_a_terminal_and_gone_at_the_end(opened: Shell) -> None:
    ended = opened.on_terminal("groups", "list", *APP)

    assert "0 of 3 databases" in ended.out
    assert ended.out.rpartition("databases")[2].startswith("\r\x1b[K")


def test_ctrl_c_ends_all_of_them(opened: Shell) -> None:
    with create_server(("127.0.0.1", 0)) as mute:
        of(opened, acme="sqlite:///acme.db", mute=f"postgresql://a@127.0.0.1:{mute.getsockname()[1]}/a")
        chosen = ("--app", "stores:found", "--database", "*")
        ended = opened.on_terminal("groups", "list", *chosen, interrupt_at="0 of 2 databases", anew=True)

    assert ended.code == 130


def test_health_has_a_line_for_each_database_and_the_checks_of_the_fleet(opened: Shell) -> None:
    of(opened, acme="sqlite:///acme.db", bolt="sqlite:///gone.db", twin="sqlite:///acme.db")

    shown, as_json, one, lost = opened.several(
        ("health", "stores:found"),
        ("health", "stores:found", "--json"),
        ("health", "stores:found", "--database", "acme"),
        ("health", "stores:lost"),
    )

    lines = [" ".join(each.split()) for each in shown.out.splitlines()]
    assert (shown.code, lines[0]) == (1, "degraded, 1 of 2 databases healthy")
    assert lines[2:4] == ["acme healthy", "bolt unhealthy there is no file gone.db"]
    assert lines[-1].startswith("database twin degraded 'twin' and 'acme' are the same database")
    assert as_json.json["databases"]["bolt"]["status"] == "unhealthy"
    assert (one.code, one.out.splitlines()[0]) == (0, "healthy")
    assert "OSError: the registry is down" in lost.out
    assert not (opened.directory / "gone.db").exists()


def test_doctor_reports_what_is_alike_once_and_the_rest_by_database(opened: Shell) -> None:
    broken = f"sqlite:///{opened.directory}/nowhere/bolt.db"
    of(opened, acme="sqlite:///acme.db", bolt=broken, cask="sqlite:///cask.db", twin="sqlite:///cask.db")

    ended = opened("doctor", "stores:homeless", "--json")
    found = {each["about"]: each for each in ended.json["findings"]}

    assert ended.code == 1
    assert found["databases"]["summary"] == "3 in stores:homeless"
    assert found["home"]["summary"] == "home='acne' is no database of the fleet. Did you mean 'acme'?"
    assert found["twin"]["grade"] == found["bolt: database"]["grade"] == "error"
    assert found["acme"]["summary"].startswith("acme.db answered in ")
    assert found["consumers"]["summary"] == "2 in stores:homeless: receipt, report"
    assert "acme: consumers" not in found
    assert opened("doctor", "stores:lost").code == 1


def test_the_databases_of_a_fleet_are_listed_with_what_is_in_them(opened: Shell) -> None:
    opened("publish", "orders.placed", "{}", "--database", "bolt", *APP)
    urls = {
        "bolt": "sqlite:///bolt.db",
        "gone": "postgresql://ann:secret@127.0.0.1:1/gone",
        "acme": "sqlite:///acme.db",
    }
    of(opened, **urls, twin="sqlite:///bolt.db")

    shown, as_json, one = opened.several(
        ("fleet", "list", "stores:found"),
        ("fleet", "list", "--app", "stores:found", "--json"),
        ("fleet", "list", "stores:found", "--database", "acme"),
    )

    rows = {each["database"]: each for each in as_json.json}
    assert list(rows) == ["bolt", "gone", "acme", "twin"]
    assert [each["status"] for each in rows.values()] == ["degraded", "unreachable", "healthy", "rejected"]
    assert [each["ready"] for each in rows.values()] == [1, None, 0, None]
    assert (rows["acme"]["home"], rows["bolt"]["home"]) == (True, False)
    assert rows["gone"]["url"] == "postgresql://ann@127.0.0.1:1/gone"
    assert "secret" not in shown.out + shown.err + as_json.out + as_json.err
    assert "gone: PostgreSQL at 127.0.0.1:1" in shown.out
    assert [each.split()[0] for each in one.out.splitlines()] == ["DATABASE", "acme"]
