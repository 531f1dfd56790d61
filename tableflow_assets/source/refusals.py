"""Why a server refuses access, and what to do about it."""

from __future__ import annotations

import re
import socket
import ssl

from tableflow_assets.base.masking import masked

LONGEST_REASON = 400
PROBE_SECONDS = 3

# Wording of OpenSSL and Java → next step. The first match wins.
HINTS = (
    (
        r"certificate has expired|validity check failed|NotAfter",
        "The server's certificate has expired, not ours: whoever runs the server has to renew it.",
    ),
    (
        r"[Hh]ostname mismatch|IP address mismatch|No subject alternative|No name matching",
        "Address the server by a name that its certificate has; a broker also announces one in its "
        "advertised.listeners.",
    ),
    (
        r"verify failed|self.signed|local issuer|certification path",
        "Name the authority that signed the server's certificate: `{block}.ca_file`.",
    ),
    (
        r"alert|bad certificate|certificate required",
        "The server wants a certificate of ours that it trusts: `{block}.client_certificate_file` "
        "and `{block}.client_key_file`.",
    ),
    (
        r"OAUTHBEARER token",
        "Check what is under `{block}.oauth`: token_endpoint, client_id, client_secret, scope.",
    ),
    (
        r"mechanism handshake failed|[Uu]nsupported.*mechanism|not enabled",
        "Check `{block}.mechanism`, and whether this port is the one with SASL.",
    ),
    (
        r"connecting to a|wrong version number|WRONG_VERSION_NUMBER",
        "Check the port, and whether it is one with TLS: `{block}`.",
    ),
    (
        r"[Aa]uthenticat|credential|401|Unauthorized",
        "Check user, password or token in `{block}`: the server does not accept them, or no longer.",
    ),
)


def next_step(reason: str, block: str) -> str:
    """``block``: the block of the settings that says how the server is accessed."""
    for words, step in HINTS:
        if re.search(words, reason):
            return f"{step.format(block=block)} See docs/security.md."
    return f"Check `{block}` in tableflow.yaml; see docs/security.md."


def readable(reason: str) -> str:
    """The reason without the client's internals, and without any secret that a server echoes."""
    reason = re.sub(r"^\w+://\S+: |\(after \d+ms in state \w+\)|error:[0-9A-F]+:", "", reason)
    reason = masked(reason)  # before it is cut: half a secret would not be recognised
    reason = " ".join(reason.split())
    return reason if len(reason) <= LONGEST_REASON else reason[:LONGEST_REASON] + "..."


def accepts_connections(address: str) -> bool:
    try:
        socket.create_connection(_host_and_port(address), timeout=PROBE_SECONDS).close()
    except OSError:
        return False
    return True


def certificate_problem(address: str, authorities: str | None, check_hostname: bool) -> str | None:
    """What is wrong with a server's certificate: Kafka's client says only that something is."""
    host, port = _host_and_port(address)
    context = ssl.create_default_context(cadata=authorities)
    context.check_hostname = check_hostname
    try:
        with (
            socket.create_connection((host, port), timeout=PROBE_SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        return str(error.verify_message)
    except OSError:
        return None


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
