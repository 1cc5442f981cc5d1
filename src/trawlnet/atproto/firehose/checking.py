"""Whether a frame can be believed: all that can be said without knowing the account's past."""

from __future__ import annotations

from trawlnet.atproto.cbor_items import SHA256_LINK
from trawlnet.atproto.firehose.car_plain import read_blocks, read_signed_commit
from trawlnet.atproto.firehose.checked import ACTIONS, CheckedCommit, CheckedOp, CheckedSync
from trawlnet.atproto.firehose.checking_plain import check_payload
from trawlnet.atproto.firehose.commit_fields_plain import check_rev
from trawlnet.atproto.firehose.frame import CommitFrame, SyncFrame
from trawlnet.atproto.firehose.limits import MAX_SYNC_BLOCKS
from trawlnet.atproto.firehose.refusal import REFUSALS, FrameRefused, Refusal
from trawlnet.atproto.identity.keys import PublicKey
from trawlnet.native.loader import native


def check_commit(frame: CommitFrame, now: float) -> CheckedCommit | Refusal:
    """Sizes and syntax, hashes, the commit, its ops and records, and the tree with all ops taken
    back. `now` is Unix time: a rev may not lie far ahead of it."""
    now_us = int(now * 1_000_000)
    if native is None:
        return check_payload(frame.payload, now_us)
    found = native.check_commit(frame.payload, now_us)
    if isinstance(found, int):
        return REFUSALS[found - 1]
    did, rev, since, cid, data, prev_data, unsigned, signature, ops, before = found
    checked = tuple([CheckedOp(ACTIONS[action], *rest) for action, *rest in ops])
    return CheckedCommit(
        did, rev, since, cid, data, prev_data, unsigned, signature, checked, before
    )


def check_sync(frame: SyncFrame, now: float) -> CheckedSync | Refusal:
    """The same for a #sync, which has a commit and nothing below it."""
    try:
        check_rev(frame.did, frame.rev, int(now * 1_000_000))
        if len(frame.blocks) > MAX_SYNC_BLOCKS:
            raise FrameRefused(Refusal.TOO_LARGE)
        found = read_blocks(frame.blocks)
        commit = read_signed_commit(found.blocks.get(found.root))
        if commit.did != frame.did:
            raise FrameRefused(Refusal.WRONG_DID)
        if commit.rev != frame.rev:
            raise FrameRefused(Refusal.WRONG_REV)
    except FrameRefused as refused:
        return refused.why
    data = SHA256_LINK + commit.data
    return CheckedSync(frame.did, frame.rev, found.root, data, commit.unsigned, commit.signature)


def check_signature(checked: CheckedCommit | CheckedSync, key: PublicKey) -> Refusal | None:
    """None if the key signed it."""
    if key.verifies(checked.signature, checked.unsigned_commit):
        return None
    return Refusal.BAD_SIGNATURE
