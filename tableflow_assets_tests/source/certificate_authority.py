"""Certificates for tests, made in a moment and trusted by nobody else."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from functools import cached_property

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    certificate: x509.Certificate
    private_key: ec.EllipticCurvePrivateKey

    @property
    def chain(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def key(self) -> str:
        return self._key(PrivateFormat.PKCS8)

    @property
    def traditional_key(self) -> str:
        """As OpenSSL wrote them for long: Java does not read it."""
        return self._key(PrivateFormat.TraditionalOpenSSL)

    def encrypted_key(self, password: str) -> str:
        return self._key(PrivateFormat.PKCS8, password)

    def _key(self, form: PrivateFormat, password: str | None = None) -> str:
        lock = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self.private_key.private_bytes(Encoding.PEM, form, lock).decode()


class Authority:
    def __init__(self, name: str) -> None:
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())

    @cached_property
    def pem(self) -> str:
        certificate = self._signed(self._name, self._key, is_authority=True, days=3650)
        return certificate.public_bytes(Encoding.PEM).decode()

    def issue(self, name: str, hosts: tuple[str, ...] = (), days: int = 30) -> Issued:
        """With ``days`` below zero, one that has expired already."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        return Issued(self._signed(subject, key, hosts=hosts, days=days), key)

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *,
        hosts: tuple[str, ...] = (),
        days: int,
        is_authority: bool = False,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 100 * DAY)
            .not_valid_after(now + days * DAY)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
