from __future__ import annotations

from tests.runtime.conftest import stage

__all__ = ["stage"]
