"""How Glue says no, or nothing at all.

Answers that moto never gives, such as throttling or a refusal of Lake Formation, are put in its place by the
server's fault hook.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tableflow_assets.base.errors import CatalogAway, CatalogRefused
from tableflow_assets.publish.glue import aws as aws_module
from tableflow_assets.publish.publish import publish
from tableflow_assets_tests.publish.sources import a_source, after_a_commit
from tableflow_assets_tests.publish.worlds.glue import GlueWorld
from tableflow_assets_tests.publish.worlds.moto_with_glues_lock import ACCOUNT
from tableflow_assets_tests.support.ports import closed_port


@pytest.fixture
def world() -> Iterator[GlueWorld]:
    with GlueWorld() as running:
        yield running


def test_a_right_that_is_missing_is_named(world: GlueWorld) -> None:
    source = a_source()
    with pytest.raises(CatalogRefused) as excinfo:
        publish(world.without_right_to_create(), lambda: source)
    database = world.place(source)["DatabaseName"]
    assert f"glue:CreateDatabase on arn:aws:glue:eu-central-1:{ACCOUNT}:database/{database}" in (
        excinfo.value.next_step
    )
    assert "user/reader" in excinfo.value.next_step


@pytest.mark.parametrize(
    ("message", "step"),
    [
        (
            "Insufficient Lake Formation permission(s): Required Create Table on shop",
            "Create Table on shop",
        ),
        (
            "Insufficient Lake Formation permission(s) on shop (Database name: shop)",
            "CREATE_TABLE on the database, and DATA_LOCATION_ACCESS",
        ),
        (
            "User: arn:aws:iam::1:role/r is not authorized to perform: glue:CreateTable on resource:"
            " arn:aws:glue:::table/a/b with an explicit deny in a service control policy",
            "explicitly",
        ),
        (
            "User: arn:aws:iam::1:role/r is not authorized to perform: kms:GenerateDataKey on resource:"
            " arn:aws:kms:::key/k because no identity-based policy allows the action",
            "kms:GenerateDataKey on arn:aws:kms:::key/k",
        ),
        ("No.", "glue:CreateTable"),
    ],
)
def test_a_refusal_says_what_to_grant(world: GlueWorld, message: str, step: str) -> None:
    source = a_source()
    with (
        world.server.answers("AccessDeniedException", 400, message, only="CreateTable"),
        pytest.raises(CatalogRefused) as excinfo,
    ):
        publish(world.catalog(), lambda: source)
    assert step in excinfo.value.next_step
    assert message in excinfo.value.problem


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("InvalidInputException", 400),
        ("ValidationException", 400),
        ("ResourceNumberLimitExceededException", 400),
        ("GlueEncryptionException", 400),
        ("", 403),
    ],
)
def test_other_refusals_are_not_tried_again(world: GlueWorld, code: str, status: int) -> None:
    with world.server.answers(code, status, "so it is"), pytest.raises(CatalogRefused) as excinfo:
        publish(world.catalog(), a_source)
    assert excinfo.value.next_step
    assert world.server.asked == ["GetTable"]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("ThrottlingException", 400),
        ("OperationTimeoutException", 400),
        ("InternalServiceException", 500),
        ("", 502),
        ("", 200),  # something that is not Glue answers
    ],
)
def test_what_passes_by_itself_is_waited_for(world: GlueWorld, code: str, status: int) -> None:
    source = a_source()
    with world.server.answers(code, status), pytest.raises(CatalogAway):
        world.catalog().find(source)
    with world.server.answers(code, status, times=2):
        assert publish(world.catalog(), lambda: source, pauses=(0.01, 0.01)) == "created"


def test_a_server_that_hangs_does_not_hold_us_up(
    world: GlueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (aws_module.CONNECT_SECONDS + aws_module.ANSWER_SECONDS) * aws_module.TRIES < 20
    monkeypatch.setattr(aws_module, "ANSWER_SECONDS", 0.2)
    with world.server.is_slow(1.0), pytest.raises(CatalogAway, match="ReadTimeout"):
        world.catalog().probe()


def test_nobody_at_the_address_is_away(world: GlueWorld) -> None:
    nobody = f"http://127.0.0.1:{closed_port()}"
    with pytest.raises(CatalogAway, match=nobody):
        world.catalog(endpoint=nobody).probe()


def test_an_update_whose_answer_got_lost_is_not_made_twice(
    world: GlueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try is carried out, and its answer comes too late; the second is refused by the lock."""
    monkeypatch.setattr(aws_module, "ANSWER_SECONDS", 0.3)
    catalog, source = world.catalog(), a_source()
    publish(catalog, lambda: source)
    newer = after_a_commit(source)
    writes = world.writes()
    with world.server.late_answers(0.6, only="UpdateTable"):
        assert publish(catalog, lambda: newer) == "nothing"
    assert world.writes() == writes + 1
    assert catalog.find(newer) == catalog.listing_for(newer)
