"""Create the tables, the shop's and Mainspring's: `python -m store.tables`."""

import asyncio

from store.database import Base, engine
from store.messages import spring


async def create() -> None:
    """Create the tables; safe to repeat."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    await engine.dispose()
    await spring.migrate()


if __name__ == "__main__":
    asyncio.run(create())
    print("tables created")
