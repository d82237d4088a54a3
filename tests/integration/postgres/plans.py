"""What a statement's plan does: asked of PostgreSQL for the very text and settings the engine uses."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.integration.postgres.acting import Connection

WANT = "ARRAY['mail'], ARRAY[{limit}], ARRAY[1, 1, 1, 1], ARRAY[0, 1, 2, 3], ARRAY[{since}]::timestamptz[]"
"""The first five parameters of a claim for one group on four levels."""


def hundred(first_seq: int, first_id: int) -> str:
    """A hundred claims of the first epoch as parameters: seqs, epochs, and the message ids that fillings make."""
    seqs = ", ".join(map(str, range(first_seq, first_seq + 100)))
    ids = ", ".join(f"'00000000-0000-7000-8000-{id:012x}'" for id in range(first_id, first_id + 100))
    return f"ARRAY[{seqs}]::bigint[], array_fill(1, ARRAY[100]), ARRAY[{ids}]::uuid[]"


def settling(held: str, verdict: str, keep: str, owner: str) -> str:
    """The parameters that settle a hundred claims alike."""
    arrays = [f"'{verdict}'::text", f"'{keep}'::text", "interval '1 second'", "interval '1 second'", "'error'::text"]
    filled = ", ".join(f"array_fill({each}, ARRAY[100])" for each in (*arrays, "'boom'::text"))
    places = "array_fill(1, ARRAY[100]), array_fill('cause'::text, ARRAY[100])"
    return f"{held}, {filled}, '{{}}', '{{}}', {places}, '{owner}', '{owner}', NULL"


@dataclass
class Plan:
    """A plan that was run."""

    root: dict[str, Any]
    nodes: list[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.nodes = list(_walk(self.root))

    @property
    def read_whole(self) -> set[str]:
        """The tables that were read from one end to the other."""
        return {node["Relation Name"] for node in self.nodes if node["Node Type"] == "Seq Scan" and _ran(node)}

    @property
    def unbounded(self) -> list[str]:
        """Index scans without a bound: another way to read it all."""
        return [
            f"{node['Index Name']} of {node['Relation Name']}"
            for node in self.nodes
            if "Index Scan" in node["Node Type"] and "Index Cond" not in node and _ran(node)
        ]

    @property
    def indexes(self) -> set[str]:
        return {node["Index Name"] for node in self.nodes if "Index Name" in node and _ran(node)}

    @property
    def buffers(self) -> int:
        return int(self.root["Shared Hit Blocks"] + self.root["Shared Read Blocks"])

    def under(self, cte: str) -> set[str]:
        """The kinds of nodes below a CTE."""
        [top] = [node for node in self.nodes if node.get("Subplan Name") == f"CTE {cte}"]
        return {node["Node Type"] for node in _walk(top)}


async def explain(connection: Connection, statement: str, arguments: str) -> Plan:
    """Run a prepared statement, undo it, and tell how it went."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        text = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {statement} ({arguments})")
    finally:
        await transaction.rollback()
    return Plan(json.loads(text)[0]["Plan"])


def _walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _walk(child)


def _ran(node: dict[str, Any]) -> bool:
    return bool(node.get("Actual Loops"))
