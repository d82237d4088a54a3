"""Cron expressions: when they are due, in which zone, and their description in words."""

from mainspring.timing.cron.errors import CronError
from mainspring.timing.cron.expression import Cron

__all__ = ["Cron", "CronError"]
