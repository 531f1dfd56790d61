"""The certificates and keys named in the settings, as PEM text that every client can read.

Read again at each use, and checked here: each client fails on a bad one in its own obscure way.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.base.masking import remember
from tableflow_assets.base.secrets import MakeClient
from tableflow_assets.settings.secret_ref import SecretRef
from tableflow_assets.settings.security import AUTHORITY, CERTIFICATE, KEY, Tls

if TYPE_CHECKING:  # rarely needed, and slow to import: definitions must load quickly
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes


class ClientCertificate(NamedTuple):
    chain: str
    key: str  # unencrypted PKCS 8, which Java can read too

    def __repr__(self) -> str:
        return "ClientCertificate(...)"


def authorities(tls: Tls, block: str, aws: MakeClient | None = None) -> str | None:
    """The certificates of the authorities to trust; None means those that the machine trusts."""
    pem = _text(tls, AUTHORITY, block, aws)
    if pem is not None:
        _certificates(pem, _name(tls, AUTHORITY, block))
    return pem


def client_certificate(
    tls: Tls, block: str, aws: MakeClient | None = None
) -> ClientCertificate | None:
    """Our own certificate with its key; None if the settings name none."""
    chain, key_text = _text(tls, CERTIFICATE, block, aws), _text(tls, KEY, block, aws)
    if chain is None or key_text is None:
        return None
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    name, key_name = _name(tls, CERTIFICATE, block), _name(tls, KEY, block)
    certificate = _certificates(chain, name)[0]
    password = tls.client_key_password
    key = _private_key(key_text, password.resolve(aws) if password else None, key_name)
    if certificate.public_key() != key.public_key():
        raise SettingsError(
            f"The key of {key_name} does not belong to the first certificate of {name}.",
            "Give a key and certificate that were issued together; the client's own comes first.",
        )
    if certificate.not_valid_after_utc < datetime.now(UTC):
        raise SettingsError(
            f"The client certificate of {name} has expired: {certificate.not_valid_after_utc}.",
            "Have it renewed, and put the new one in its place.",
        )
    unlocked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return ClientCertificate(chain, remember(unlocked.decode()))


def _certificates(pem: str, name: str) -> list[x509.Certificate]:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(pem.encode())
    except ValueError:  # dropped, because its message may quote what it could not parse
        raise SettingsError(
            f"{name} holds no certificates in PEM form.",
            "It must be text with -----BEGIN CERTIFICATE----- lines; convert DER or PKCS 12 first.",
        ) from None


def _private_key(pem: str, password: str | None, name: str) -> PrivateKeyTypes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    secret = password.encode() if password else None
    try:
        return load_pem_private_key(pem.encode(), secret)
    except TypeError:
        problem = "is encrypted" if secret is None else "is not encrypted"
        step = "Give" if secret is None else "Leave out"
        raise SettingsError(
            f"The key of {name} {problem}.", f"{step} `client_key_password`."
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise SettingsError(
            f"{name} holds no private key in PEM form, or `client_key_password` does not open it.",
            "It must be text with a -----BEGIN ... PRIVATE KEY----- line, and its own password.",
        ) from None


def _text(tls: Tls, keys: tuple[str, str], block: str, aws: MakeClient | None) -> str | None:
    as_file: str | None = getattr(tls, keys[0])
    as_secret: SecretRef | None = getattr(tls, keys[1])
    if as_secret is not None:
        # Certificates are public, so only keys are masked in logs. Some secret stores allow a single
        # line only, hence the escaped line breaks.
        text = as_secret.resolve(aws) if keys == KEY else as_secret.resolve_name(aws)
        return text.replace("\\n", "\n")
    if as_file is None:
        return None
    try:
        return Path(as_file).expanduser().read_text()
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise SettingsError(
            f"{block}.{keys[0]}: the file {as_file} cannot be read: {reason}.",
            "Give the path of a PEM file that the user running tableflow may read.",
        ) from None


def _name(tls: Tls, keys: tuple[str, str], block: str) -> str:
    return f"{block}.{keys[0] if getattr(tls, keys[0]) is not None else keys[1]}"
