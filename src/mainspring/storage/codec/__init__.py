"""Payloads: values to bytes when published, bytes to the handler's type when delivered."""

from __future__ import annotations

from mainspring.storage.codec.contract import BYTES, JSON, Codec, Decode, check_content_type, with_version_of
from mainspring.storage.codec.decoder import Codecs, decoder
from mainspring.storage.codec.errors import DEPTH, told
from mainspring.storage.codec.json_codec import JsonCodec, encode, json_reader
from mainspring.storage.codec.msgpack_codec import MsgpackCodec
from mainspring.storage.codec.types import spelled
from mainspring.storage.codec.versions import Step, Upcaster, Versions

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
    "json_reader",
    "spelled",
    "told",
    "with_version_of",
]
