"""The installable Django app."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules

from mainspring.integrations.django.checks import TAG, check_project, is_in_order
from mainspring.integrations.django.tables import create_tables


class _MainspringConfig(AppConfig):
    """Imports every ``consumers.py``, registers the system checks, creates the tables with ``manage.py migrate``."""

    name: str = "mainspring.integrations.django"
    label: str = "mainspring"
    verbose_name: str = "Mainspring"

    def ready(self) -> None:
        """Import consumers in every process, so that a view can send to one."""
        checks.register(check_project, TAG)
        post_migrate.connect(create_tables, sender=self, dispatch_uid="mainspring")
        if is_in_order():  # if not, the checks and any use of the app report why
            autodiscover_modules("consumers")
