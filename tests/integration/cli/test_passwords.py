"""A URL in the wrong place: whatever the command line says about it, it does not repeat the password."""

import pytest

from tests.integration.cli.shell import Shell

URL = "postgresql://ann:s3cret@db.example/shop"
APP = ("--app", "shop:app")

MISTAKEN = [
    ("worker", URL),
    ("worker", URL, "--debug"),
    ("worker", "shop:app", "--group", URL),
    ("worker", "shop:app", "--processes", URL, "--debug"),
    ("worker", "shop:app", "--log-level", URL),
    ("declare", URL),
    (URL,),
    ("migrate", URL),
    ("migrate", "--app", URL),
    ("migrate", "--url", "sqlite:///x.db", "--schema", URL),
    ("migrate", "--url", "sqlite:///x.db", "--namespace", URL),
    ("sql", "--schema", URL),
    ("messages", "show", URL, *APP),
    ("messages", "list", "--limit", URL, *APP),
    ("groups", "pause", URL, *APP),
    ("publish", URL, *APP),
    ("publish", "t", URL, *APP),
    ("publish", "t", "--delay", URL, *APP),
    ("publish", "t", "--header", URL, *APP),
    ("doctor", URL, *APP),
    ("demo", "--seconds", URL),
    ("demo", "--file", f"sqlite:///x/../{URL}"),
]


def test_a_url_in_the_wrong_place_keeps_its_password(shell: Shell) -> None:
    answers = shell.several(*MISTAKEN)

    for arguments, answer in zip(MISTAKEN, answers, strict=True):
        assert answer.code == 2, arguments
        assert answer.err, arguments
        assert "s3c" not in answer.out + answer.err, arguments


def test_a_url_instead_of_an_app_is_told_where_it_goes(shell: Shell) -> None:
    assert shell("worker", URL).complaint == (
        "a URL names a database, not an app: write MODULE:APP, such as shop:app; the URL goes into Mainspring(…), "
        "MAINSPRING_URL or --url"
    )


@pytest.mark.parametrize("variable", ["MAINSPRING_SCHEMA", "MAINSPRING_NAME", "MAINSPRING_GRACE", "MAINSPRING_CONFIG"])
def test_doctor_keeps_it_too(shell: Shell, variable: str) -> None:
    (shell.directory / "mainspring.toml").write_text(f'retention = "{URL}"\nkeep = "{URL}"\n')
    shell.environment[variable] = URL

    told, ended = shell("doctor", URL), shell("doctor", URL, "--json")

    assert (told.code, ended.code) == (1, 1)
    assert "s3cret" not in told.out + told.err + ended.out + ended.err


def test_a_line_of_the_file_without_its_quotes_is_not_repeated_with_it(shell: Shell) -> None:
    (shell.directory / "mainspring.toml").write_text("url = postgresql://ann:s3#cret@db/shop\n")

    ended = shell("doctor", "--json")

    (problem,) = (each["summary"] for each in ended.json["findings"] if each["about"] == "configuration")
    assert problem.endswith('Invalid value: text needs quotes, write url = "…"')


def test_health_keeps_what_a_check_returns(shell: Shell) -> None:
    (shell.directory / "checked.py").write_text(
        "from mainspring import Check, Mainspring\n"
        "app = Mainspring('sqlite:///checked.db', name='checked', auto_migrate=True)\n"
        f"app.health.check('bank', lambda: Check('bank', 'degraded', '{URL}', {{'url': '{URL}'}}))\n"
        "app.health.check('cache', lambda: Check('cache', 'ok', '', {'client': object()}))\n"
    )

    answers = shell.several(("migrate", "checked:app"), ("health", "checked:app"), ("health", "checked:app", "--json"))

    assert [each.code for each in answers] == [0, 2, 2]
    assert "postgresql://…@db.example/shop" in answers[1].out
    assert "it returned a Check with status='ok'" in answers[2].out
    assert "s3cret" not in "".join(each.out + each.err for each in answers)
