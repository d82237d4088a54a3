"""What the doctor says of managed services, by their addresses alone."""

import pytest

from mainspring.app.observe.providers import of_provider

COOL = "postgresql://ann:secret@ep-cool-1.eu-2.aws.neon.tech/shop?sslmode=require"


@pytest.mark.parametrize(
    ("url", "name", "direct"),
    [
        (COOL.replace("-1.", "-1-pooler."), "Neon", "remove -pooler from the host name"),
        (
            "postgresql://u:p@aws-0-eu.pooler.supabase.com:6543/postgres",
            "Supabase",
            "port 5432, where the pooler gives each connection a session",
        ),
        ("postgresql://u:p@db.abc.supabase.co:6543/postgres", "Supabase", "port 5432"),
        (
            "postgresql://u:p@shop.proxy-abc.eu-west-1.rds.amazonaws.com/shop",
            "Amazon RDS Proxy",
            "name the endpoint of the instance or cluster",
        ),
        ("postgresql://u:p@shop.postgres.database.azure.com:6432/shop", "Azure Database", "port 5432"),
        ("postgresql://u:p@shop-do-user-1.db.ondigitalocean.com:25061/pool", "DigitalOcean", "port 25060"),
    ],
)
def test_a_pooler_is_named_with_the_way_around_it(url: str, name: str, direct: str) -> None:
    pooler = of_provider(url)[0]

    assert (pooler.about, pooler.grade) == ("provider", "warning")
    assert pooler.summary.startswith(f"this is the pooler of {name}: nothing is prepared")
    assert pooler.advice == f"let workers connect to the server itself: {direct}"


def test_a_service_that_stops_idle_servers_is_named() -> None:
    (sleeps,) = of_provider(COOL)

    assert (sleeps.about, sleeps.grade) == ("provider", "note")
    assert sleeps.summary.startswith("Neon stops a server without queries, and a worker asks every few seconds")
    assert "secret" not in str(sleeps)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p@localhost/shop",
        "postgresql:///shop?host=/var/run/postgresql",
        "postgresql://u:p@aws-0-eu.pooler.supabase.com:5432/postgres",
        "postgresql://u:p@shop.abc.eu-west-1.rds.amazonaws.com/shop",
        "postgresql://u:p@shop.postgres.database.azure.com/shop",
        "postgresql://u:p@neon.tech.example.com/shop",
        "postgresql://u:p@neon.example.com:port/shop",
        "postgresql://u:p@one.example.com,two.example.com:5433/shop",
    ],
)
def test_of_other_addresses_nothing_is_known(url: str) -> None:
    assert of_provider(url) == []
