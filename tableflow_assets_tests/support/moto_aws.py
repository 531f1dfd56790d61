"""AWS as moto plays it, on a loopback port, with a note of all that it was asked."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import boto3
import pytest
from moto.moto_api._internal import moto_api_backend
from moto.server import ThreadedMotoServer

REGION = "eu-west-1"
BUCKET = "lake"
KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "moto-takes-any-secret"


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    form: dict[str, str]


@dataclass
class Aws:
    endpoint: str
    requests: list[Request] = field(default_factory=list)

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )

    def written(self, part: str) -> list[Request]:
        """The objects that were put with this in their names."""
        return [one for one in self.requests if one.method in ("PUT", "POST") and part in one.path]

    def assumed(self) -> list[dict[str, str]]:
        return [one.form for one in self.requests if one.form.get("Action") == "AssumeRole"]


@contextmanager
def running_aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    moto_api_backend.reset()
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        aws = Aws(f"http://{host}:{port}")
        _note_requests(server, aws)
        place = {"LocationConstraint": REGION}
        aws.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration=place)
        for service in ("STS", "SECRETS_MANAGER"):
            monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", aws.endpoint)
        yield aws
    finally:
        server.stop()
        moto_api_backend.reset()


def _note_requests(server: ThreadedMotoServer, aws: Aws) -> None:
    inner: Any = server._server
    app = inner.app

    def noting(environ: dict[str, Any], start: Any) -> Any:
        form = b""
        if "form-urlencoded" in environ.get("CONTENT_TYPE", ""):
            form = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            environ["wsgi.input"] = io.BytesIO(form)
        headers = {
            name.removeprefix("HTTP_").lower().replace("_", "-"): value
            for name, value in environ.items()
            if name.startswith("HTTP_")
        }
        fields = {name: values[0] for name, values in parse_qs(form.decode()).items()}
        request = Request(environ["REQUEST_METHOD"], environ["PATH_INFO"], headers, fields)
        aws.requests.append(request)
        return app(environ, start)

    inner.app = noting
