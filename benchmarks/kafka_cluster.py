"""A mock cluster of Kafka in a process of its own, so that its CPU time is not taken for a client's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.brokers.benches.kafka import REAL, MockCluster


@contextmanager
def kafka() -> Iterator[str]:
    """Yield the address of the Kafka that ``MAINSPRING_TEST_KAFKA`` names, or of a mock cluster."""
    if REAL:
        yield REAL
        return
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-m", "benchmarks.kafka_cluster"], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None, "it is a pipe"
        yield process.stdout.readline().decode().strip()
        process.communicate()  # its input ends, and so does it


if __name__ == "__main__":
    print(MockCluster().behind, flush=True)
    sys.stdin.read()
