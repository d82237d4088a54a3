"""`manage.py import_orders orders.csv`: place all orders of a file, or none."""

import csv
from argparse import ArgumentParser
from decimal import Decimal, InvalidOperation
from pathlib import Path

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from orders.placing import place_order


class Command(BaseCommand):
    """Imports orders in one transaction: an invalid line leaves neither orders nor messages."""

    help = "Place every order of a CSV file with the columns email and total."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)

    def handle(self, *, file: Path, **_: object) -> None:
        with file.open(newline="") as lines, transaction.atomic():
            for number, line in enumerate(csv.DictReader(lines), start=2):
                try:
                    place_order(line["email"], Decimal(line["total"]))
                except (ValidationError, InvalidOperation) as error:
                    raise CommandError(f"{file}:{number}: {error}") from error
        self.stdout.write(f"placed {number - 1} orders")
