"""A Flask shop as gunicorn and `flask` load it: made by a factory, on the database that SHOP_URL names."""

import os
from typing import Any

from flask import Flask, current_app, jsonify
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from mainspring.integrations.flask import FlaskMainspring

UNWANTED = 999
URL = os.environ["SHOP_URL"]
spring = FlaskMainspring(URL, name="shop")
engine = create_engine(URL.replace("postgresql://", "postgresql+psycopg://"))
db = scoped_session(sessionmaker(engine))

# Opened before the fork: `--preload` does so in the parent of every process that serves.
spring.sync.publish("shop.loaded", {"pid": os.getpid()})
engine.dispose()


def create_app() -> Flask:
    app = Flask("shop")
    app.config["GREETING"] = "welcome"
    spring.init_app(app)

    @app.teardown_appcontext
    def remove_session(_: BaseException | None) -> None:
        db.remove()

    @app.post("/orders/<int:order>")
    def place(order: int) -> Any:
        session: Session = db()
        with session.begin():
            session.execute(text("INSERT INTO orders VALUES (:order)"), {"order": order})
            spring.sync.publish("orders.placed", {"order": order, "pid": os.getpid()}, tx=db)
            if order == UNWANTED:
                raise ValueError(order)
        receipt = spring.sync.publish("orders.counted", {"order": order, "pid": os.getpid()})
        return jsonify(status=receipt.status, pid=os.getpid())

    return app


@spring.consumer("orders.greeted")
def greet(order: int) -> None:
    print(f"{current_app.config['GREETING']} {order}", flush=True)
