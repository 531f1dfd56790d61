"""AWS as moto has it, on a loopback port, with what moto leaves out of Glue put back by us.

- moto's `UpdateTable` ignores `VersionId` and `SkipArchive`. Here it refuses a version that is not the
  current one, as Glue does, and keeps no older ones where it is told so.
- moto judges a call to Glue without looking at the policy's resources, and refuses it in IAM's words.
  Here it is told which table or database a call is about, and refuses in Glue's words.

Users, keys, signatures and policies are moto's own IAM, which is switched on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock, Thread
from typing import Any

from moto import settings as moto_settings
from moto.core.authorization import ActionAuthenticatorMixin
from moto.core.exceptions import (
    AccessDeniedError,
    InvalidClientTokenIdError,
    JsonRESTError,
    SignatureDoesNotMatchError,
)
from moto.glue.models import glue_backends
from moto.glue.responses import GlueResponse
from moto.iam.models import iam_backends
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from moto.sts.models import sts_backends
from werkzeug.serving import make_server

ACCOUNT = "123456789012"
REGION = "eu-central-1"
WRITES = frozenset({"CreateTable", "UpdateTable", "DeleteTable"})
IN_GLUES_WORDS = {
    "AccessDenied": "AccessDeniedException",
    "InvalidClientTokenId": "UnrecognizedClientException",
    "SignatureDoesNotMatch": "InvalidSignatureException",
}


class MotoServer:
    """In a thread of this process: moto's state is the process's, so there is one at a time."""

    def __init__(self) -> None:
        self.writes = 0
        self.asked: list[str] = []  # operations, as they came
        self._app = DomainDispatcherApplication(create_backend_app)
        self._faults: list[Callable[[str], tuple[str, bytes] | None]] = []
        self._late: tuple[str, float] = ("", 0)
        self._is_open = False
        self._port = 0

    def __enter__(self) -> MotoServer:
        _forget_everything()
        self._undo = _restore_what_moto_leaves_out()
        self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self._undo()
        _forget_everything()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def user(self, name: str, *policies: dict[str, Any]) -> tuple[str, str]:
        """A user of these policies; their access key and secret key."""
        iam = iam_backends[ACCOUNT]["aws"]
        iam.create_user(region_name=REGION, user_name=name)
        for number, policy in enumerate(policies):
            iam.put_user_policy(name, f"policy{number}", json.dumps(policy))
        access_key = iam.create_access_key(name)
        return access_key.access_key_id, access_key.secret_access_key

    def role(self, name: str, trust: dict[str, Any], policy: dict[str, Any]) -> str:
        iam = iam_backends[ACCOUNT]["aws"]
        role = iam.create_role(name, json.dumps(trust), "/", None, "", [], 3600)
        iam.put_role_policy(name, "policy", json.dumps(policy))
        return str(role.arn)

    @contextmanager
    def answers(
        self, code: str, status: int, message: str = "", *, only: str = "", times: int = 10**9
    ) -> Iterator[None]:
        """Not moto, but this: to all operations or to one, for ever or a few times."""
        left = [times]

        def fault(operation: str) -> tuple[str, bytes] | None:
            if left[0] <= 0 or only not in ("", operation):
                return None
            left[0] -= 1
            body = json.dumps({"__type": code, "message": message}) if code else "<html>"
            return f"{status} Fault", body.encode()

        self._faults.append(fault)
        try:
            yield
        finally:
            self._faults.remove(fault)

    @contextmanager
    def is_slow(self, seconds: float) -> Iterator[None]:
        def fault(_operation: str) -> None:
            time.sleep(seconds)

        self._faults.append(fault)
        try:
            yield
        finally:
            self._faults.remove(fault)

    @contextmanager
    def late_answers(self, seconds: float, *, only: str) -> Iterator[None]:
        """What is asked is carried out at once, and the answer takes its time."""
        self._late = (only, seconds)
        try:
            yield
        finally:
            self._late = ("", 0)

    @contextmanager
    def is_open(self) -> Iterator[None]:
        """To everybody, also without any keys."""
        self._is_open = True
        moto_settings.INITIAL_NO_AUTH_ACTION_COUNT = 10**9
        try:
            yield
        finally:
            self._is_open = False
            moto_settings.INITIAL_NO_AUTH_ACTION_COUNT = 0

    @contextmanager
    def is_gone(self) -> Iterator[None]:
        self._close()
        try:
            yield
        finally:
            self._listen()

    def _listen(self) -> None:
        self._server = make_server(
            "127.0.0.1", self._port, self, threaded=True, request_handler=_Quiet
        )
        self._port = self._server.server_port
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def _close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        operation = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
        self.asked.append(operation)
        for fault in tuple(self._faults):
            if (answer := fault(operation)) is not None:
                start_response(answer[0], [("Content-Type", "application/x-amz-json-1.1")])
                return [answer[1]]

        def counted(status: str, *rest: Any) -> Any:
            self.writes += operation in WRITES and status.startswith("200")
            return start_response(status, *rest)

        if self._is_open:
            # moto looks here for the service and the region that are meant.
            nobody = f"AWS4-HMAC-SHA256 Credential=NOBODY/20000101/{REGION}/glue/aws4_request, "
            environ.setdefault("HTTP_AUTHORIZATION", nobody)
        answer = self._app(environ, counted)
        if operation == self._late[0]:
            time.sleep(self._late[1])
        return answer


def _forget_everything() -> None:
    """Of the services that are used here; another test's server in this process may have its own."""
    for backend in (glue_backends, iam_backends, sts_backends):
        backend[ACCOUNT].reset()


class _Quiet(MotoRequestHandler):
    def log_request(self, *_: object) -> None:
        """Requests are in `asked`."""


def _restore_what_moto_leaves_out() -> Callable[[], None]:
    """Glue's lock, policies' resources, and IAM at all; the result puts it back as it was."""
    moto_create, moto_update = GlueResponse.create_table, GlueResponse.update_table
    allowed, counted = (
        moto_settings.INITIAL_NO_AUTH_ACTION_COUNT,
        ActionAuthenticatorMixin.request_count,
    )
    one_at_a_time = RLock()

    def create_table(response: Any) -> Any:
        with one_at_a_time:
            return moto_create(response)

    def update_table_with_glues_lock(response: Any) -> Any:
        asked = response.parameters
        with one_at_a_time:
            table = response.glue_backend.get_table(
                asked["DatabaseName"], asked["TableInput"]["Name"]
            )
            current = str(table._current_version)
            if asked.get("VersionId", current) != current:
                raise JsonRESTError(
                    "ConcurrentModificationException",
                    "Update table failed due to concurrent modifications.",
                )
            answer = moto_update(response)
            if asked.get("SkipArchive"):
                table.delete_version(current)
            return answer

    def judge(response: Any, resource: str) -> None:
        try:
            ActionAuthenticatorMixin._authenticate_and_authorize_normal_action(response, resource)
        except (AccessDeniedError, InvalidClientTokenIdError, SignatureDoesNotMatchError) as error:
            is_denied = isinstance(error, AccessDeniedError)
            message = error.message + (f" on resource: {resource}" if is_denied else "")
            raise JsonRESTError(IN_GLUES_WORDS[error.error_type], message) from error

    GlueResponse.create_table = create_table  # type: ignore[method-assign]
    GlueResponse.update_table = update_table_with_glues_lock  # type: ignore[method-assign]
    GlueResponse._determine_resource = _arn_that_the_call_is_about  # type: ignore[attr-defined]
    GlueResponse._authenticate_and_authorize_normal_action = judge  # type: ignore[method-assign]
    moto_settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    ActionAuthenticatorMixin.request_count = 0

    def undo() -> None:
        GlueResponse.create_table = moto_create  # type: ignore[method-assign]
        GlueResponse.update_table = moto_update  # type: ignore[method-assign]
        del GlueResponse._determine_resource  # type: ignore[attr-defined]
        del GlueResponse._authenticate_and_authorize_normal_action
        moto_settings.INITIAL_NO_AUTH_ACTION_COUNT = allowed
        ActionAuthenticatorMixin.request_count = counted

    return undo


def _arn_that_the_call_is_about(response: Any) -> str:
    parameters = response.parameters
    table = (parameters.get("TableInput") or {}).get("Name")
    name = parameters.get("Name") or (parameters.get("DatabaseInput") or {}).get("Name")
    if database := parameters.get("DatabaseName"):
        path = f"table/{database}/{table or name}"
    else:
        path = f"database/{name}"
    return f"arn:aws:glue:{response.region}:{ACCOUNT}:{path}"
