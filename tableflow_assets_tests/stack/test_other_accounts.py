"""What another account of the same machine, without our keys, gets from the embedded servers: nothing."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import stat
import struct
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import psutil
import pytest
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.proto import base_pb2, base_pb2_grpc

from tableflow_assets.base.errors import StackError
from tableflow_assets.stack.dagster import CodeServer
from tableflow_assets.stack.seaweed import SeaweedServer
from tableflow_assets.stack.spark import SparkServer
from tableflow_assets.stack.stack import Stack
from tableflow_assets.stack.state import StackState

NOBODY = 65534


def version_from(channel: DefaultChannelBuilder) -> str:
    """As any client would open a session on the server."""
    question = base_pb2.AnalyzePlanRequest(
        session_id=str(uuid.uuid4()), spark_version=base_pb2.AnalyzePlanRequest.SparkVersion()
    )
    question.user_context.user_id = "another"
    stub = base_pb2_grpc.SparkConnectServiceStub(channel.toChannel())
    answer = stub.AnalyzePlan(question, timeout=30, metadata=channel.metadata())
    return str(answer.spark_version.version)


@pytest.mark.parametrize("token", [None, "wrong"])
def test_spark_refuses_whoever_has_no_token(stack: Stack, token: str | None) -> None:
    channel = DefaultChannelBuilder(SparkServer(stack.state).address)
    if token:
        channel.set("authorization", f"Bearer {token}")
    with pytest.raises(grpc.RpcError) as caught:
        version_from(channel)
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED


def test_plain_pyspark_gets_in_with_the_token(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/operations.md says: by the name `localhost`, and the token in the environment."""
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", stack.state.spark_token)
    port = stack.state.ports["spark"]
    assert version_from(DefaultChannelBuilder(f"sc://localhost:{port}")).startswith("4.")


def test_another_servers_token_in_the_environment_does_not_disturb(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "of-another-server")
    SparkServer(stack.state).look()


def test_no_process_shows_a_secret_in_its_arguments_or_log(stack: Stack) -> None:
    state = stack.state
    secrets = [state.spark_token, state.secret_key, state.reader_secret_key]
    for name, record in StackState.load(state.folder).processes.items():
        process = record.find()
        assert process is not None
        arguments = " ".join(process.cmdline())
        log = state.log_of(name).read_text(errors="replace")
        assert not [secret for secret in secrets if secret in arguments + log], name
    mode = (state.folder / "spark" / "spark.properties").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_sparks_ports_for_executors_want_a_secret(stack: Stack) -> None:
    """One request in the frames of Spark's own network protocol, as an executor would begin without it."""
    state, body = stack.state, b"whatever it is"
    request = struct.pack(">bqi", 3, 1, len(body)) + body
    spark = psutil.Process(StackState.load(state.folder).processes["spark"].pid)
    ports = {
        connection.laddr.port
        for connection in spark.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    } - {state.ports["spark"]}
    assert ports
    for port in ports:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(struct.pack(">q", 8 + len(request)) + request)
            assert b"Expected SaslMessage" in connection.recv(4096)


def test_every_port_of_the_stack_is_reached_from_this_machine_only(stack: Stack) -> None:
    for name, record in StackState.load(stack.state.folder).processes.items():
        listening = [
            connection.laddr.ip
            for connection in psutil.Process(record.pid).net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert listening, name
        assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}, name


# ---- SeaweedFS: behind the gateway and the catalog, which ask for keys ----

INNER_GRPC = {
    "weed_master_grpc": "/master_pb.Seaweed/GetMasterConfiguration",
    "weed_volume_grpc": "/volume_server_pb.VolumeServer/VolumeServerStatus",
    "weed_filer_grpc": "/filer_pb.SeaweedFiler/GetFilerConfiguration",
    "s3_grpc": "/messaging_pb.SeaweedS3IamCache/ListIdentities",
}


@pytest.mark.parametrize("port", INNER_GRPC)
def test_the_inner_ports_answer_nobody_without_a_certificate(
    seaweed: SeaweedServer, port: str
) -> None:
    address = f"127.0.0.1:{seaweed.state.ports[port]}"
    with grpc.insecure_channel(address) as channel:
        ask = channel.unary_unary(INNER_GRPC[port])
        with pytest.raises(grpc.RpcError) as caught:
            ask(b"", timeout=10)
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE  # it does not get to a service
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", seaweed.state.ports[port]), timeout=10) as plain,
        trusting.wrap_socket(plain) as encrypted,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        encrypted.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert not encrypted.recv(1)


@pytest.mark.parametrize("path", ["/dir/assign", "/vol/grow?count=1", "/submit"])
def test_the_master_hands_out_nothing_over_http(seaweed: SeaweedServer, path: str) -> None:
    address = f"http://127.0.0.1:{seaweed.state.ports['weed_master']}{path}"
    try:
        answer = httpx.get(address)
    except httpx.TransportError:
        return
    assert answer.status_code in (401, 403, 404), answer.text


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_the_volume_server_wants_a_signature(seaweed: SeaweedServer, method: str) -> None:
    """Whatever is asked for, there or not: what lies there is found out by trying otherwise."""
    address = f"http://127.0.0.1:{seaweed.state.ports['weed_volume']}/1,0123456789"
    assert httpx.request(method, address).status_code == 401


# ---- the state folder ----


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where everybody may look: pytest's own folders are closed already."""
    outer = Path(tempfile.mkdtemp(prefix="tableflow-accounts-"))
    outer.chmod(0o755)
    yield outer / "state"
    shutil.rmtree(outer)


@pytest.mark.parametrize("existing", [False, True])
def test_only_its_owner_looks_into_the_state_folder(folder: Path, existing: bool) -> None:
    if existing:  # as versions before have left it
        folder.mkdir(mode=0o755)
    StackState(folder).make_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    if os.geteuid() == 0 and (setpriv := shutil.which("setpriv")):
        listing = [setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "ls"]
        # Where even the way there is closed, as in a temporary folder within a closed one, it proves nothing.
        if subprocess.run([*listing, folder.parent], check=False).returncode == 0:
            assert subprocess.run([*listing, folder], check=False).returncode != 0


def test_a_folder_for_all_is_not_taken_from_them(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o1777)  # as /tmp
    with pytest.raises(StackError, match="shared by all"):
        StackState(folder).make_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777


@pytest.mark.parametrize("length", [10, 150])
def test_the_code_server_is_reached_by_a_file_that_others_cannot_open(
    tmp_path: Path, length: int
) -> None:
    """Who reaches it can have it run code. The kernel allows short paths only."""
    server = CodeServer(StackState(tmp_path / ("s" * length)))
    path = server.code_socket
    assert len(os.fsencode(path)) <= 107
    server._make_room_for_the_socket()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    server._make_room_for_the_socket()  # the file of a server that was killed is in the way
    assert not path.exists()
    if not path.is_relative_to(tmp_path):
        path.parent.rmdir()
