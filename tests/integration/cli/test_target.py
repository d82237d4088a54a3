"""Every command takes the application the same way: as an argument, as --app, from a variable or from the file."""

import pytest

from tests.integration.cli.shell import Shell, line_with, stop

BOTH = [["declare"], ["doctor"], ["health"], ["migrate"], ["top", "--json"]]
OPTION_ONLY = [["messages", "list"], ["groups", "list"], ["dead", "causes"], ["schedules", "thaw"], ["prune", "--yes"]]


@pytest.mark.parametrize("command", BOTH, ids=lambda command: str(command[0]))
def test_an_application_is_an_argument_an_option_a_variable_or_a_line_of_the_file(
    shell: Shell, command: list[str]
) -> None:
    shell("declare", "shop:app")

    by_argument, by_option = shell.several([*command, "shop:app"], [*command, "--app", "shop:app"])
    shell.environment["MAINSPRING_APP"] = "shop:app"
    by_variable = shell(*command)
    del shell.environment["MAINSPRING_APP"]
    (shell.directory / "mainspring.toml").write_text('app = "shop:app"\n')
    by_file = shell(*command)

    ends = [by_argument, by_option, by_variable, by_file]
    assert {each.code for each in ends} <= {0, 1}, [each.err for each in ends]
    assert "send_receipt" in by_argument.out or command[0] in ("migrate", "health")
    if command[0] in ("migrate", "health"):
        assert len({each.out.splitlines()[0] for each in ends}) == 1


@pytest.mark.parametrize("command", OPTION_ONLY, ids=" ".join)
def test_a_command_about_the_database_finds_the_configured_application(shell: Shell, command: list[str]) -> None:
    shell("declare", "shop:app")
    (shell.directory / "mainspring.toml").write_text('app = "shop:app"\n')

    found = shell(*command)

    assert found.code == 0, found.err


def test_the_application_of_the_file_is_imported_from_where_the_file_is(shell: Shell) -> None:
    (shell.directory / "mainspring.toml").write_text('app = "shop:app"\n')
    (shell.directory / "pyproject.toml").write_text("")
    inside = shell.directory / "deep" / "inside"
    inside.mkdir(parents=True)
    below = Shell(inside)
    below.environment["SHOP_URL"] = f"sqlite:///{shell.directory}/shop.db"

    declared = below("declare")

    assert "send_receipt" in declared.out, declared.err
    assert declared.out.endswith("Next: mainspring worker\n")


def test_a_file_that_is_elsewhere_names_an_application_of_the_current_directory(shell: Shell) -> None:
    settings = shell.directory.parent / "settings.toml"
    settings.write_text('app = "shop:app"\n')
    shell.environment["MAINSPRING_CONFIG"] = str(settings)

    assert "send_receipt" in shell("declare").out


def test_a_worker_and_its_processes_run_the_configured_application(shell: Shell) -> None:
    shell.environment["MAINSPRING_APP"] = "shop:app"
    with shell.started("worker", "--processes", "2", anew=True) as worker:
        assert "ready: shop:app" in line_with(worker, "ready")

        assert stop(worker).code == 0


def test_what_is_typed_wins_over_what_is_configured(shell: Shell) -> None:
    shell("declare", "shop:app")
    shell.environment["MAINSPRING_APP"] = "nowhere:app"

    typed, by_url = shell.several(
        ["groups", "list", "--app", "shop:app"], ["groups", "list", "--url", "sqlite:///shop.db"]
    )

    assert (typed.code, by_url.code) == (0, 0), typed.err + by_url.err


@pytest.mark.parametrize(
    ("command", "settings", "complaint"),
    [
        (["worker"], {}, "no application given: write MODULE:APP, such as shop:app, or set MAINSPRING_APP, or app in"),
        (["declare"], {}, "no application given: write MODULE:APP"),
        (
            ["worker", "shop:app", "--app", "store:app"],
            {},
            "shop:app and --app store:app are two applications: give one",
        ),
        (["groups", "list", "shop:app"], {}, "the application is an option of this command: write --app shop:app"),
        (
            ["groups", "list"],
            {"MAINSPRING_APP": "shop"},
            "MAINSPRING_APP: 'shop' does not name an app: write MODULE:APP",
        ),
        (["worker"], {"MAINSPRING_APP": "shp:app"}, "MAINSPRING_APP: there is no module 'shp'"),
        (["fanout", "run", "etl"], {}, "the planner is in the application's code: give --app MODULE:APP"),
    ],
)
def test_an_application_that_is_missing_or_wrong_is_reported_with_its_place(
    shell: Shell, command: list[str], settings: dict[str, str], complaint: str
) -> None:
    shell.environment |= settings

    assert complaint in shell(*command).complaint


def test_an_app_in_the_table_of_an_app_is_reported(shell: Shell) -> None:
    (shell.directory / "mainspring.toml").write_text('url = "sqlite:///shop.db"\n[apps.shop]\napp = "shop:app"\n')

    assert (
        "line 3, column 1: app names the application of commands: write it above" in shell("groups", "list").complaint
    )


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        (["worker", "shop:app", "--autoscale", "4"], "write --concurrency 20, how many run at once in one process"),
        (["worker", "-A", "shop"], "there is no option -A: write --app shop:app"),
        (["worker", "shop:app", "--queues", "mail"], "there is no option --queues: write --group NAME"),
        (["worker", "shop:app", "--loglevel=info"], "write --log-level debug"),
        (["worker", "shop:app", "-B"], "leave it out: every worker runs the schedules"),
        (["beat"], "there is no command 'beat': `mainspring worker MODULE:APP` runs the schedules too"),
        (["run", "shop:app"], "there is no command 'run': write `mainspring worker MODULE:APP`"),
        (["metrics"], "write `mainspring top`, or read /metrics of `mainspring worker --probe HOST:PORT`"),
        (["flower"], "write `mainspring dashboard MODULE:APP`"),
        (["purge"], "write `mainspring prune`"),
        (["publish", "orders.placed", "--countdown", "10"], "there is no option --countdown: write --delay 10s"),
        (["publish", "orders.placed", "1", "--queue", "y"], "the topic comes first: mainspring publish TOPIC JSON"),
        (["messages", "list", "-v"], "Unknown option: -v"),
        (["dashboard", "--workers", "4"], "Unknown option: --workers"),
        (["messages", "list", "--queue", "y"], "there is no option --queue: write --group NAME"),
        (["cron", "0 9 * * *", "--tz", "UTC"], "there is no option --tz: write --timezone ZONE"),
    ],
)
def test_a_foreign_word_on_the_command_line_is_rejected_with_ours(
    shell: Shell, command: list[str], advice: str
) -> None:
    assert advice in shell(*command).complaint
