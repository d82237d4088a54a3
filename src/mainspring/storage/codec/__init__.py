"""Payloads: values to bytes when published, bytes to the handler's type when delivered."""

from __future__ import annotations

from mainspring.storage.codec.contract import (
    BYTES,
    JSON,
    Codec,
    Decode,
    check_content_type,
    with_version_of,
)
from mainspring.storage.codec.decoder import Codecs, Step, Upcaster, Versions, decoder
from mainspring.storage.codec.formats import JsonCodec, MsgpackCodec, encode, json_reader
from mainspring.storage.codec.types import DEPTH, has_floats, located, misfits, spelled

__all__ = [
    "BYTES",
    "DEPTH",
    "JSON",
    "Codec",
    "Codecs",
    "Decode",
    "JsonCodec",
    "MsgpackCodec",
    "Step",
    "Upcaster",
    "Versions",
    "check_content_type",
    "decoder",
    "encode",
    "has_floats",
    "json_reader",
    "located",
    "misfits",
    "spelled",
    "with_version_of",
]
