"""Managed PostgreSQL services that their host names give away, and what to know of their poolers and idle computes."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from mainspring.model.symptom import Symptom

_DIRECT = "let workers connect to the server itself: "


class Provider(NamedTuple):
    """A service, and how an address of its pooler is told from one of its servers."""

    name: str
    domain: str
    pooled: str
    """A part of the host name, or the port, of its pooler in transaction mode."""
    direct: str
    """How to reach the server itself."""
    sleeps: bool = False
    """Whether an idle server is stopped, and started again by a query."""


PROVIDERS = (
    Provider("Neon", ".neon.tech", "-pooler.", "remove -pooler from the host name", sleeps=True),
    Provider("Supabase", ".supabase.com", ":6543", "port 5432, where the pooler gives each connection a session"),
    Provider("Supabase", ".supabase.co", ":6543", "port 5432"),
    Provider("Amazon RDS Proxy", ".rds.amazonaws.com", ".proxy-", "name the endpoint of the instance or cluster"),
    Provider("Azure Database", ".postgres.database.azure.com", ":6432", "port 5432"),
    Provider("DigitalOcean", ".db.ondigitalocean.com", ":25061", "port 25060"),
)


def of_provider(url: str) -> list[Symptom]:
    """Return what is known of the service at this address, without connecting to it."""
    for place in urlsplit(url).netloc.rpartition("@")[2].lower().split(","):
        for each in PROVIDERS:
            if place.partition(":")[0].endswith(each.domain):
                return [*_of_pooler(each, place), *_of_sleep(each)]
    return []


def _of_pooler(provider: Provider, place: str) -> list[Symptom]:
    if provider.pooled not in place and not place.endswith(provider.pooled):
        return []
    summary = (
        f"this is the pooler of {provider.name}: nothing is prepared, and no bell is heard, so that workers poll every "
        "half second; publishing through it is fine"
    )
    return [Symptom("provider", "warning", summary, _DIRECT + provider.direct)]


def _of_sleep(provider: Provider) -> list[Symptom]:
    if not provider.sleeps:
        return []
    summary = (
        f"{provider.name} stops a server without queries, and a worker asks every few seconds: while one runs the "
        "server never sleeps, and while none runs no schedule wakes it"
    )
    advice = "for many that are mostly idle use a fleet, with a longest_pause= beyond the time after which they stop"
    return [Symptom("provider", "note", summary, advice)]
