"""A host application with a dashboard in it, for a server of its own: ``uvicorn tests.dashboard.mounted:host``."""

from starlette.applications import Starlette
from starlette.routing import Mount

from mainspring.dashboard import Dashboard
from mainspring.integrations.fastapi import lifespan
from tests.dashboard.scene import OPERATOR, shop

app = shop()
host = Starlette(
    routes=[Mount("/ops", Dashboard(app, tokens={"operator": OPERATOR}))],
    lifespan=lifespan(app),
)
