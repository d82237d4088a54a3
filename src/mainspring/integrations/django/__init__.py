"""Mainspring in a Django project: put ``mainspring.integrations.django`` into INSTALLED_APPS.

``from mainspring.integrations.django import app`` gives the project's app, on the database that Django has. Every
``consumers.py`` of an installed app is imported when Django starts.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mainspring.model.errors import Misuse

try:
    import django as _django
except ImportError as _error:
    raise Misuse("mainspring.integrations.django is for Django, which is not installed: pip install django") from _error

from mainspring.integrations.django.project import django_app, project_app

if TYPE_CHECKING:
    from mainspring.app.mainspring import Mainspring

    app: Mainspring
    """The project's app."""

__all__ = ["app", "django_app"]

# Hidden from type checkers: they would believe that every name is there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Make the project's app when it is first asked for, once the settings can be read."""
        if name != "app":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        _set_up()
        return project_app()


def _set_up() -> None:
    """Set Django up where nobody has: in scripts, notebooks, the ``mainspring`` command and ``cpu=True`` processes."""
    from django.apps import apps
    from django.conf import ENVIRONMENT_VARIABLE, settings

    if not apps.ready and not apps.loading and settings.configured is False:
        if not os.environ.get(ENVIRONMENT_VARIABLE):
            raise Misuse(
                f"Django does not know its settings here: name them by {ENVIRONMENT_VARIABLE}, as in "
                f"{ENVIRONMENT_VARIABLE}=shop.settings, or go through manage.py"
            )
        _django.setup()
