"""Mainspring in a Django project: add ``mainspring.integrations.django`` to INSTALLED_APPS.

``from mainspring.integrations.django import app`` returns the project's app, on Django's database. Every
``consumers.py`` of an installed app is imported when Django starts.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mainspring.model.errors import Misuse

try:
    import django as _django
except ImportError as _error:
    raise Misuse("mainspring.integrations.django needs Django: pip install django") from _error

from mainspring.integrations.django.project import django_app, project_app

if TYPE_CHECKING:
    from mainspring.app.mainspring import Mainspring

    app: Mainspring
    """The project's app."""

__all__ = ["app", "django_app"]

# Hidden from type checkers, which would accept every name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Build the project's app on first access, once the settings are readable."""
        if name != "app":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        _set_up()
        return project_app()


def _set_up() -> None:
    """Set Django up if it is not: in scripts, notebooks, the ``mainspring`` command and ``cpu=True`` processes."""
    from django.apps import apps
    from django.conf import ENVIRONMENT_VARIABLE, settings

    if not apps.ready and not apps.loading and settings.configured is False:
        if not os.environ.get(ENVIRONMENT_VARIABLE):
            raise Misuse(
                f"Django's settings are not configured: set {ENVIRONMENT_VARIABLE}, as in "
                f"{ENVIRONMENT_VARIABLE}=shop.settings, or use manage.py"
            )
        _django.setup()
