"""Cron expressions: when they are due, in which zone, and their description in words."""

from mainspring.timing.cron.expression import Cron
from mainspring.timing.cron.fields import CronError

__all__ = ["Cron", "CronError"]
