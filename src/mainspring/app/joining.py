"""``app.join``: several messages, and the one consumer that follows when all of them have ended."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Unpack

from mainspring.app.door import Door
from mainspring.app.following import Addressed, JoinOptions
from mainspring.app.joins import Joins
from mainspring.app.post import Post
from mainspring.model.join import JoinReceipt


class Joining:
    """The part of an app that joins."""

    _post: Post
    _door: Door

    @functools.cached_property
    def joins(self) -> Joins:
        """The joins that are open."""
        return Joins(self._door)

    async def join(self, members: Iterable[Addressed], **options: Unpack[JoinOptions]) -> JoinReceipt:
        """Send to each member, a ``(consumer, payload)``, and let one consumer follow, once, when all have ended.

        ``then`` follows when all are done, otherwise ``failed``. A member ends when it is done, buried, cancelled or
        expired. All members are stored, with what follows, or none.
        """
        return await self._post.fan_in(members, options)
