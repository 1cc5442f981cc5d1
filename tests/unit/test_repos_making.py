"""Whose repository it is, who signed it, and what is said of one that must be refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.repos.made_repos import DID, REV
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.identity.keys import Curve
from trawlnet.crawlers.repos.config import ReposConfig, Verify
from trawlnet.crawlers.repos.visiting.packing import (
    CarReading,
    Doubt,
    PackRefused,
    RepoBlock,
    RepoOwner,
    is_signed,
    pack_options,
    read_car,
    usual_room,
)
from trawlnet.engine.outcome import Reason
from trawlnet.sim.private_key import PrivateKey
from trawlnet.sim.repository.car import write_car
from trawlnet.sim.repository.repo import build_repo_of_blocks

KEY, OTHER = PrivateKey(Curve.K256, 7), PrivateKey(Curve.P256, 8)
OWNER = RepoOwner(DID, "https://pds.example", KEY.public.did_key, 1_760_000_000_000_000)
RECORDS = {f"app.bsky.feed.post/3lscuqc52o{n:03d}": encode({"text": str(n)}) for n in range(9)}
REPO = build_repo_of_blocks(DID, RECORDS, KEY, REV)


def read(
    car: bytes, whose: RepoOwner = OWNER, verify: Verify = Verify.FULL
) -> RepoBlock | Doubt | PackRefused:
    how = pack_options(ReposConfig(verify=verify))
    return read_car(CarReading(car, whose, how, usual_room(car, how)))


def test_a_repository_that_its_owner_signed_becomes_a_block() -> None:
    made = read(REPO.car())
    assert isinstance(made, RepoBlock)
    assert (made.did, made.rev, made.records, made.collections) == (DID, REV, 9, 1)


@pytest.mark.parametrize("key", [OTHER.public.did_key, "", "did:key:zNonsense"])
def test_a_signature_that_is_not_the_key_s_is_doubted_and_kept_for_a_second_look(key: str) -> None:
    doubt = read(REPO.car(), replace(OWNER, key=key))
    assert isinstance(doubt, Doubt) and doubt.block.records == 9
    assert is_signed(doubt, KEY.public.did_key) and not is_signed(doubt, OTHER.public.did_key)
    for verify in (Verify.HASHES, Verify.OFF):
        assert isinstance(read(REPO.car(), replace(OWNER, key=key), verify), RepoBlock)


@pytest.mark.parametrize("verify", list(Verify))
def test_another_account_s_repository_is_refused_however_little_is_verified(verify: Verify) -> None:
    refused = read(REPO.car(), replace(OWNER, did="did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"), verify)
    assert isinstance(refused, PackRefused) and refused.reason is Reason.PARSE_ERROR
    assert refused.detail == f"a repository of {DID}"


def test_what_a_second_look_may_mend_is_truncated_and_the_rest_is_not() -> None:
    car = REPO.car()
    without_last = write_car(
        [REPO.head], [b for b in REPO.blocks if b.data != encode({"text": "8"})]
    )
    damaged = bytearray(car)
    damaged[-1] ^= 1
    for body, reason, word in (
        (car[:-1], Reason.TRUNCATED, "truncated"),
        (without_last, Reason.TRUNCATED, "missing_block"),
        (bytes(damaged), Reason.PARSE_ERROR, "hash_mismatch"),
        (b"nonsense", Reason.TRUNCATED, "truncated"),
        (b"", Reason.TRUNCATED, "truncated"),
    ):
        refused = read(body)
        assert isinstance(refused, PackRefused) and not refused.cramped
        assert (refused.reason, refused.detail.split(" ")[0]) == (reason, word)
