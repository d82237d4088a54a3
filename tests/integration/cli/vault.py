"""An application whose messages hold what nobody else may read."""

import logging
import os
from dataclasses import dataclass

from pydantic import BaseModel

from mainspring import Mainspring

app = Mainspring(os.environ.get("VAULT_URL", "sqlite:///vault.db"), name="vault", namespace="test", keep="all")


@dataclass
class Card:
    number: str
    owner: int


class Account(BaseModel):
    iban: str
    balance: int


@app.consumer("cards.charge", retry="none")
async def charge(card: Card) -> None:
    logging.getLogger("vault").info("charging", extra={"owner": card.owner})
    raise RuntimeError("the terminal is away")


@app.consumer("cards.block", retry="none")
def block(card: Card) -> None:
    logging.getLogger("vault").info("blocking")
    raise RuntimeError("the bank is away")


@app.consumer("accounts.open", retry="none")
async def open_account(account: Account) -> None:
    raise AssertionError("it is never readable")


@app.consumer("cards.print", cpu=True, concurrency=1, retry="none")
def print_card(card: Card) -> None:
    logging.getLogger("vault").info("printing")
