"""What a project's settings lead to, and what `manage.py check` says where they lead nowhere."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.frameworks.projects import new_project, sqlite


def test_a_project_needs_no_settings_of_ours(tmp_path: Path) -> None:
    project = new_project(tmp_path, sqlite(tmp_path / "shop.db"))

    said = project.manage("check")

    assert said == "System check identified no issues (0 silenced).\n"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("'orders.spring.app'", "E001) MAINSPRING must be a dict"),
        ("{'GRASE': '5s'}", "E001) MAINSPRING has an unknown key 'GRASE'. Did you mean"),
        ("{'APP': 'spring'}", "E001) MAINSPRING['APP'] = 'spring' must be the dotted path of a Mainspring"),
        ("{'APP': 'spring.app', 'GRACE': '5s'}", "E001) MAINSPRING has both APP and GRACE"),
        ("{'DATABASE': 'other'}", "E001) MAINSPRING['DATABASE'] = 'other' is not in DATABASES, which has 'default'"),
        ("{'MIGRATE': 'no'}", "E001) MAINSPRING['MIGRATE'] = 'no' must be True or False"),
        (
            "{'APP': 'spring.app'}",
            "E002) MAINSPRING['APP'] = 'spring.app' cannot be imported: No module named",
        ),
        ("{'APP': 'orders.__name__'}", "E002) MAINSPRING['APP'] = 'orders.__name__' is of type str, not a Mainspring"),
        ("{'GRACE': 'soon'}", "E002) grace="),
    ],
)
def test_a_mistake_in_the_settings_is_an_error_of_the_system_checks(tmp_path: Path, given: str, problem: str) -> None:
    project = new_project(tmp_path, sqlite(tmp_path / "shop.db"), f"MAINSPRING = {given}")

    said = project.refused("check")

    assert f"(mainspring.{problem}" in said, said
    assert "Traceback" not in said, said


def test_a_database_that_is_not_served_is_an_error_of_the_system_checks(tmp_path: Path) -> None:
    project = new_project(tmp_path, {"default": {}})

    said = project.refused("check")

    assert "(mainspring.E002) DATABASES['default'] is on unknown, which Mainspring does not support" in said


@pytest.mark.parametrize(
    ("more", "settings", "doubt"),
    [
        ({"OPTIONS": {}}, "", "(mainspring.W002) DATABASES['default']: a transaction that reads before it publishes"),
        ({"ATOMIC_REQUESTS": True}, "", "(mainspring.W003) DATABASES['default'] has ATOMIC_REQUESTS"),
        ({}, "MAINSPRING = {'APP': 'orders.spring.app'}", "(mainspring.W001) orders.spring.app is on another database"),
    ],
)
def test_what_works_and_may_surprise_is_a_warning(
    tmp_path: Path, more: dict[str, Any], settings: str, doubt: str
) -> None:
    spring = "from mainspring import Mainspring\napp = Mainspring('sqlite:///elsewhere.db')\n"
    project = new_project(tmp_path, sqlite(tmp_path / "shop.db", **more), settings, spring=spring)

    said = project.manage("check")

    assert doubt in said
    assert "identified 1 issue" in said


def test_an_app_of_the_projects_own_is_the_one_that_is_used(tmp_path: Path) -> None:
    spring = "from mainspring.integrations.django import django_app\napp = django_app(name='mine', grace='7s')\n"
    project = new_project(
        tmp_path, sqlite(tmp_path / "shop.db"), "MAINSPRING = {'APP': 'orders.spring.app'}", spring=spring
    )

    said = project.manage("check")
    shown = project.manage(
        "shell",
        "--no-imports",
        "-c",
        "from mainspring.integrations.django import app; from orders.spring import app as own;"
        "print(app is own, app.options.name, app.options.grace)",
    )

    assert "no issues" in said
    assert shown == "True mine 0:00:07\n"


def test_options_are_written_as_django_writes_settings(tmp_path: Path) -> None:
    project = new_project(tmp_path, sqlite(tmp_path / "shop.db"), "MAINSPRING = {'NAME': 'shop', 'GRACE': '7s'}")

    said = project.script("""
        from mainspring.integrations.django import app
        print(app.options.name, app.options.grace)
    """)

    assert said == "shop 0:00:07\n"


def test_a_database_of_djangos_has_a_url(tmp_path: Path) -> None:
    urls: dict[str, dict[str, Any]] = {
        "postgresql:///shop": {"NAME": "shop"},
        "postgresql://me@db:5433/shop": {"NAME": "shop", "HOST": "db", "PORT": 5433, "USER": "me"},
        "postgresql://m%2Fe:p%40%3A%3F@[::1]/a%20b": {"NAME": "a b", "HOST": "::1", "USER": "m/e", "PASSWORD": "p@:?"},
        "postgresql:///shop?host=%2Fvar%2Frun": {"NAME": "shop", "HOST": "/var/run"},
        "postgresql://db/shop?sslmode=require": {
            "NAME": "shop", "HOST": "db", "OPTIONS": {"sslmode": "require", "pool": True}
        },
    }  # fmt: skip
    databases = dict(zip(("default", "two", "three", "four", "five"), urls.values(), strict=True))
    engine = {"ENGINE": "django.db.backends.postgresql"}
    project = new_project(tmp_path, {alias: engine | given for alias, given in databases.items()})

    said = project.script("""
        from django.conf import settings
        from mainspring.integrations.django.databases import Location
        for alias in settings.DATABASES:
            print(Location(alias)())
    """)

    assert said.splitlines() == list(urls)
