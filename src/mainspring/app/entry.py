"""Where the processes of ``cpu=True`` consumers begin: the handler is found by name, and gets no database."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any, NoReturn

from mainspring.app import signature
from mainspring.app.consumed import registration_of
from mainspring.app.program import locate
from mainspring.app.registration import Registration
from mainspring.model.errors import Misuse
from mainspring.runtime import child
from mainspring.runtime.handler import Handler, Program
from mainspring.timing.backoff import NO_RETRY
from mainspring.timing.clock import Clock, SystemClock


def main(channel: int, lifeline: int) -> None:
    """Serve the worker at the other end of the channel."""
    child.serve(channel, lifeline, find)


def find(program: Program) -> Handler:
    """The handler that the program names, ready to be called."""
    found = locate(_load(program), program.qualname)
    registration = _registered(found)
    shape = signature.read(found) if registration is None else registration.shape
    # As registered it knows the codecs and versions of its app.
    decode = signature.payload_decoder(shape) if registration is None else registration.decode
    call = signature.compile_call(shape, decode, Detached())
    return Handler(program.group, call, NO_RETRY)  # what to make of a failure is the worker's to decide


class Detached:
    """Stands in for the app: a context in here knows its message, and publishes nothing."""

    def __init__(self) -> None:
        self.clock: Clock = SystemClock()

    @property
    def blocking(self) -> NoReturn:
        """Refuse at once, as ``forward`` does."""
        self.forward()

    def forward(self, *_: Any) -> NoReturn:
        """Refuse at once: nobody could await it in a plain function."""
        raise Misuse(
            "a cpu=True handler has no database to publish to: let it compute, and publish in a handler that has no "
            "cpu=True"
        )

    fan_in = forward


def _registered(found: Any) -> Registration | None:
    """The handler as it was registered, whatever other decorators stand above that."""
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
