"""Another Mainspring database, in a file."""

import shutil
import tempfile
from pathlib import Path

from mainspring import Mainspring
from mainspring.app.broker.remote import Remote
from mainspring.brokers.contract import Broker
from tests.brokers.bench import TOPIC


class RemoteBench:
    largest = 100_000
    keeps_undelivered = True
    parks = True

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mainspring-"))
        self.url = f"sqlite:///{self.folder}/other.db"
        self.empty = f"sqlite:///{self.folder}/empty.db"

    async def open(self) -> None:
        await Mainspring(self.empty, name="empty").migrate()
        app = Mainspring(self.url, name="other")
        await app.migrate()
        async with app:
            await app.queue("billing", TOPIC).declare()

    async def close(self) -> None:
        shutil.rmtree(self.folder)

    def sends(self) -> Broker:
        return Remote(self.url, largest=self.largest)

    def reads(self) -> Broker:
        return Remote(self.url, group="billing")

    def sends_nowhere(self) -> Broker:
        return Remote(self.empty)

    def reads_nothing(self) -> Broker:
        return Remote(self.url, group="missing", topics=[TOPIC])

    def at(self, url_port: int) -> Broker:
        return Remote(f"postgresql://127.0.0.1:{url_port}/other")
