"""The Django example does what its README says."""

from pathlib import Path

from tests.house.tree import ROOT
from tests.integration.examples.readme import copied

PAGE = ROOT / "examples" / "django_shop" / "README.md"


def test_every_command_of_the_page_works_as_written(tmp_path: Path) -> None:
    with copied("django_shop", tmp_path) as session:
        session.follow(PAGE)

    assert session.typed[-1] == "python manage.py test"
