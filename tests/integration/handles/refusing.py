"""Publishing with a handle that cannot be joined."""

from typing import Any

import pytest

from mainspring.model.errors import BadHandle
from tests.integration.handles.conftest import Shop


def refused(shop: Shop, tx: Any) -> str:
    """What a blocking publish with this handle is answered."""
    with pytest.raises(BadHandle) as refusal:
        shop.app.sync.publish("orders.placed", {}, tx=tx)
    return str(refusal.value)


async def refused_async(shop: Shop, tx: Any) -> str:
    """What an awaited publish with this handle is answered."""
    with pytest.raises(BadHandle) as refusal:
        await shop.app.publish("orders.placed", {}, tx=tx)
    return str(refusal.value)
