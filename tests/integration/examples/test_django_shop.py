"""The Django example does what its README says."""

from pathlib import Path

from tests.integration.examples.readme import copied


def test_every_command_of_the_page_works_as_written(tmp_path: Path) -> None:
    with copied("django_shop", tmp_path) as session:
        session.follow()

    assert session.typed[-1] == "python manage.py test"
