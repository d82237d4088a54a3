"""What a test needs from the machine: with it the test runs, without it the run says so."""

import os

import pytest

MARK = "not on this machine:"


def need(present: object, what: str, how: str) -> None:
    """Skip the test when something is missing; in CI, where nothing may be missing, fail it."""
    if present:
        return
    reason = f"{MARK} {what} ({how})"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
