"""Whether a CAR is the whole repository that was asked for; its signature is not looked at yet."""

from __future__ import annotations

from trawlnet.formats.car import read_frames, read_header
from trawlnet.formats.cid import Cid, matches
from trawlnet.formats.commit import parse_commit
from trawlnet.formats.malformed import Malformed
from trawlnet.formats.repo import VerifiedRepo


def trouble_with(car: bytes, did: str) -> str:
    """Why this is not the repository of `did`; empty if it is. Blocking, and heavy for large ones.

    Every block must match its hash and the tree must be complete: a CAR that was cut between two
    blocks looks fine otherwise.
    """
    try:
        header = read_header(car)
        blocks: dict[Cid, bytes] = {}
        for frame in read_frames(car, header.end):
            data = car[frame.start : frame.end]
            if not matches(frame.cid, data):
                return f"block at {frame.at} does not match its hash"
            blocks[frame.cid] = data
        if not header.roots or header.roots[0] not in blocks:
            return "the commit is missing"
        commit = parse_commit(blocks[header.roots[0]])
        if commit.did != did:
            return "a repository of somebody else"
        for _ in VerifiedRepo(commit, blocks).records():
            pass
    except Malformed as error:
        return str(error)
    return ""
