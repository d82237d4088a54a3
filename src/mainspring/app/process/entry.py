"""Entry point of the processes of ``cpu=True`` consumers: it finds the handler by name, without a database."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any, NoReturn

from mainspring.app.consume import signature
from mainspring.app.consume.consumer import Registration, registration_of
from mainspring.app.consume.cpu import locate
from mainspring.model.errors import Misuse
from mainspring.runtime import child
from mainspring.runtime.handler import Handler, Program
from mainspring.timing.backoff import NO_RETRY
from mainspring.timing.clock import Clock, SystemClock


def main(channel: int, lifeline: int) -> None:
    """Serve the worker at the other end of the channel."""
    child.serve(channel, lifeline, find)


def find(program: Program) -> Handler:
    """Return the handler that the program names."""
    found = locate(_load(program), program.qualname)
    registration = _registered(found)
    shape = signature.read(found) if registration is None else registration.shape
    # The registration knows the codecs and versions of its app.
    decode = signature.payload_decoder(shape) if registration is None else registration.decode
    call = signature.compile_call(shape, decode, Detached())
    return Handler(program.group, call, NO_RETRY)  # the worker decides on failures


class Detached:
    """A substitute for the app: its context knows the message, and cannot publish."""

    def __init__(self) -> None:
        self.clock: Clock = SystemClock()

    @property
    def blocking(self) -> NoReturn:
        """Raise Misuse, as ``forward`` does."""
        self.forward()

    def forward(self, *_: Any) -> NoReturn:
        """Raise at once: a plain function could not await it."""
        raise Misuse(
            "a cpu=True handler has no database to publish to: let it compute, and publish in a handler without "
            "cpu=True"
        )

    fan_in = forward


def _registered(found: Any) -> Registration | None:
    """Return the registration of a handler, also below other decorators."""
    while (registration := registration_of(found)) is None:
        found = getattr(found, "__wrapped__", None)
        if found is None:
            return None
    return registration


def _load(program: Program) -> ModuleType:
    if not program.is_script:
        return importlib.import_module(program.source)
    loader = SourceFileLoader(child.MAIN, program.source)
    spec = importlib.util.spec_from_file_location(child.MAIN, program.source, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[child.MAIN] = sys.modules["__main__"] = module
    loader.exec_module(module)
    return module
