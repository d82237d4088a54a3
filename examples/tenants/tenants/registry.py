"""The registry: which customers there are, and where the database of each is. `python -m tenants.registry` makes it."""

import asyncio
import os

from sqlalchemy import Column, MetaData, Table, Text, insert, select
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

URL = os.environ.get("REGISTRY_URL", "sqlite+aiosqlite:///registry.db")

engine = create_async_engine(URL, poolclass=NullPool)
customers = Table("customers", MetaData(), Column("name", Text, primary_key=True), Column("url", Text, nullable=False))


async def urls() -> dict[str, str]:
    """Return the URL of each customer's database. The fleet asks again and again."""
    async with engine.connect() as connection:
        rows = await connection.execute(select(customers.c.name, customers.c.url).order_by(customers.c.name))
        return {row.name: row.url for row in rows}


async def add(name: str, url: str) -> None:
    """Add a customer, whose database is ready. Raises IntegrityError if there is one of this name."""
    async with engine.begin() as connection:
        await connection.execute(insert(customers).values(name=name, url=url))


async def create() -> None:
    """Create the table; safe to repeat."""
    async with engine.begin() as connection:
        await connection.run_sync(customers.metadata.create_all)


if __name__ == "__main__":
    asyncio.run(create())
    print("registry: table created")
