"""Credentials for AWS: wrong, missing, rotated, and those of a role, which expire.

Users, keys, signatures, policies and roles are moto's own IAM and STS, which it is told to judge by
(`INITIAL_NO_AUTH_ACTION_COUNT = 0`); only the answer that a token is expired is put in its place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tableflow_assets.base import masking, secrets
from tableflow_assets.base.errors import CatalogRefused
from tableflow_assets.publish.glue.glue import GlueCatalog
from tableflow_assets.publish.glue.policy import trust_policy
from tableflow_assets.publish.publish import publish
from tableflow_assets_tests.publish.sources import a_source
from tableflow_assets_tests.publish.worlds.glue import GlueWorld, allowing
from tableflow_assets_tests.publish.worlds.moto_with_glues_lock import ACCOUNT


@pytest.fixture
def world() -> Iterator[GlueWorld]:
    with GlueWorld() as running:
        yield running


def test_wrong_keys_are_named_by_where_they_come_from(world: GlueWorld) -> None:
    with pytest.raises(CatalogRefused, match="token included in the request is invalid") as excinfo:
        world.with_wrong_credentials().probe()
    assert "env:GLUE_WORLD_WRONG_KEY" in excinfo.value.next_step
    assert "a-secret-that-nobody-gave" not in str(excinfo.value)


def test_a_wrong_secret_of_a_right_key_is_refused(world: GlueWorld) -> None:
    world.keys("MIXED", os.environ["GLUE_WORLD_WRITER_KEY"], "not-its-secret")
    with pytest.raises(CatalogRefused, match="signature") as excinfo:
        GlueCatalog("lake", world.settings("MIXED")).probe()
    assert "clock" in excinfo.value.next_step
    assert "not-its-secret" not in str(excinfo.value)


def test_a_variable_that_is_not_set_is_refused(
    world: GlueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GLUE_WORLD_WRITER_SECRET")
    with pytest.raises(CatalogRefused, match="GLUE_WORLD_WRITER_SECRET"):
        world.catalog().probe()


def test_no_credentials_at_all_are_refused(
    world: GlueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    settings = world.settings().model_copy(update={"access_key": None, "secret_key": None})
    with pytest.raises(CatalogRefused, match="no credentials") as excinfo:
        GlueCatalog("lake", settings).probe()
    assert "machine's own" in excinfo.value.next_step


def test_keys_that_are_changed_are_used_without_a_restart(world: GlueWorld) -> None:
    catalog, source = world.catalog(), a_source()
    publish(catalog, lambda: source)
    world.keys(
        "WRITER", os.environ["GLUE_WORLD_READER_KEY"], os.environ["GLUE_WORLD_READER_SECRET"]
    )
    with pytest.raises(CatalogRefused, match="user/reader"):
        publish(catalog, a_source)


def test_keys_that_aws_no_longer_knows_are_read_anew_before_they_count_as_wrong(
    world: GlueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a secret of Secrets Manager that was rotated while we still kept the old one."""
    successor = world.server.user("successor", allowing("glue:*"))
    monkeypatch.setattr(secrets, "forget", lambda: world.keys("WRONG", *successor))
    world.with_wrong_credentials().probe()
    assert world.server.asked == ["GetDatabase", "GetDatabase"]


class TestRole:
    """Calls by an assumed role: moto's STS gives its keys, and checks trust and external id."""

    @pytest.fixture(autouse=True)
    def _sts(self, world: GlueWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", world.server.address)
        me = f"arn:aws:iam::{ACCOUNT}:user/caller"
        self.role = world.server.role(
            "publisher", trust_policy(me, "our-secret-handshake"), allowing("glue:*")
        )
        world.keys("CALLER", *world.server.user("caller", allowing("sts:AssumeRole")))

    def catalog(self, world: GlueWorld, external_id: str | None = None) -> GlueCatalog:
        access = {"role_arn": self.role, "external_id": external_id or "our-secret-handshake"}
        return GlueCatalog("lake", world.settings("CALLER", **access))

    @staticmethod
    def assumed(world: GlueWorld) -> int:
        return world.server.asked.count("")  # STS has no such header

    def test_its_keys_are_kept_while_they_last(self, world: GlueWorld) -> None:
        catalog, source = self.catalog(world), a_source()
        publish(catalog, lambda: source)
        assert publish(catalog, lambda: source) == "nothing"
        assert self.assumed(world) == 1

    def test_a_token_that_expires_in_mid_run_is_renewed_once(self, world: GlueWorld) -> None:
        catalog, source = self.catalog(world), a_source()
        catalog.probe()
        message = "The security token included in the request is expired"
        answers = world.server.answers
        with answers("ExpiredTokenException", 400, message, only="CreateTable", times=1):
            assert publish(catalog, lambda: source) == "created"
        assert self.assumed(world) == 2
        with (
            answers("ExpiredTokenException", 400, message, only="GetDatabase"),
            pytest.raises(CatalogRefused, match="expired") as excinfo,
        ):
            catalog.probe()
        assert "env:GLUE_WORLD_CALLER_KEY" in excinfo.value.next_step
        assert self.assumed(world) == 3

    def test_its_keys_are_renewed_before_they_expire(self, world: GlueWorld) -> None:
        catalog = self.catalog(world)
        catalog.probe()

        assert catalog._aws._role is not None
        keys = catalog._aws._role[1]
        assert keys._expiry_time > datetime.now(UTC) + timedelta(minutes=55)
        keys._expiry_time = datetime.now(UTC) + timedelta(minutes=2)
        catalog.probe()
        assert self.assumed(world) == 2

    def test_keys_that_were_changed_meanwhile_assume_it(
        self, world: GlueWorld, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        right = os.environ["GLUE_WORLD_CALLER_KEY"], os.environ["GLUE_WORLD_CALLER_SECRET"]
        world.keys("CALLER", "AKIAANOLDONE00000000", "an-old-secret")
        monkeypatch.setattr(secrets, "forget", lambda: world.keys("CALLER", *right))
        self.catalog(world).probe()
        assert self.assumed(world) == 2

    def test_its_secrets_are_masked(self, world: GlueWorld) -> None:
        catalog = self.catalog(world)
        catalog.probe()
        assert catalog._aws._role is not None
        keys = catalog._aws._role[1].get_frozen_credentials()
        assert masking.masked(f"{keys.secret_key} {keys.token}") == "*** ***"

    def test_a_refused_role_is_our_error_alone(
        self, world: GlueWorld, caplog: pytest.LogCaptureFixture
    ) -> None:
        with pytest.raises(CatalogRefused):
            self.catalog(world, "somebody-elses").probe()
        assert not [one for one in caplog.records if one.levelname == "WARNING"]

    def test_a_wrong_external_id_is_refused_with_what_to_allow(self, world: GlueWorld) -> None:
        with pytest.raises(CatalogRefused) as excinfo:
            self.catalog(world, "somebody-elses").probe()
        assert "sts:AssumeRole" in excinfo.value.next_step
        assert "--trust" in excinfo.value.next_step
