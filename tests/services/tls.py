"""A PostgreSQL with TLS: the system's, since the embedded one is built without, and a certificate for it."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services.cluster import DURABLE, Cluster, is_root
from tests.services.needs import need
from tests.services.watch import watch, watched_home


@contextmanager
def tls_server(tmp_path: Path, **settings: str) -> Iterator[tuple[Cluster, Path]]:
    """A server of one test's own that offers TLS, running, and the certificate to know it by."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    need(found and shutil.which("openssl"), "PostgreSQL with TLS", "make services")
    with watched_home() as home:
        watch("keep", home)
        certificate, key = certified(home)
        tls = {"ssl": "on", "ssl_cert_file": str(certificate), "ssl_key_file": str(key)}
        log = tmp_path / "tls.log"
        server = Cluster(home, log=log, settings={**DURABLE, **tls, **settings}, programs=found[-1].parent)
        server.start()
        try:
            yield server, certificate
        finally:
            server.stop()


def certified(home: Path) -> tuple[Path, Path]:
    """Make a key and a certificate that it signs itself, for this host."""
    certificate, key = home / "server.crt", home / "server.key"
    command = ["openssl", "req", "-new", "-x509", "-nodes", "-days", "2", "-newkey", "rsa:2048"]
    command += [
        "-subj",
        "/CN=127.0.0.1",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-keyout",
        str(key),
        "-out",
        str(certificate),
    ]
    subprocess.run(command, check=True, capture_output=True)
    key.chmod(0o600)
    if is_root():
        shutil.chown(key, "nobody")
    return certificate, key
