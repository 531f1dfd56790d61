"""What keeps the other accounts of this machine out of SeaweedFS's inner ports.

The S3 gateway and the catalog ask for keys. The parts behind them trust whoever reaches their ports, unless
they get certificates (gRPC) and keys to sign their requests with (the volume server's HTTP).
"""

from __future__ import annotations

import datetime
import secrets
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tableflow_assets.stack.server import write_private

PARTS = ("master", "volume", "filer", "s3", "client")
VALID = datetime.timedelta(days=3650)
CLOCK_SKEW = datetime.timedelta(days=1)


def write_security(folder: Path) -> None:
    """``security.toml``, which SeaweedFS reads in its working folder. New keys at every start."""
    certificate, key = folder / "inner.pem", folder / "inner.key"
    issued, private_key = _self_signed()
    write_private(certificate, issued)
    write_private(key, private_key)
    signing = {"jwt.signing": secrets.token_hex(32), "jwt.signing.read": secrets.token_hex(32)}
    sections = [
        *(f'[{name}]\nkey = "{value}"\n' for name, value in signing.items()),
        f'[grpc]\nca = "{certificate}"\n',
        *(f'[grpc.{part}]\ncert = "{certificate}"\nkey = "{key}"\n' for part in PARTS),
    ]
    write_private(folder / "security.toml", "\n".join(sections))


def _self_signed() -> tuple[str, str]:
    """One certificate for all parts, and the only one that they accept."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tableflow-seaweed")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private_key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM).decode(), private_key.decode()
