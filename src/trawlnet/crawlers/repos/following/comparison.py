"""What a server lists, compared with what was published: after a gap in its stream. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from trawlnet.atproto.tid import tid_time_us
from trawlnet.crawlers.atproto.streams.upstream import Upstream
from trawlnet.crawlers.repos.accounts.visit_planner import ListedAccount
from trawlnet.crawlers.repos.following.judging import Judge
from trawlnet.crawlers.repos.following.live_state import LiveState, ResyncCause, Standing
from trawlnet.malformed import Malformed

_CLOCKS_DIFFER = 600  # Seconds: revs are written by the clocks of others.


def compare(judge: Judge, claims: Sequence[ListedAccount], since: int) -> list[str]:
    """Asks for a visit wherever the two differ. An account that nobody knows is visited if it
    changed since the gap began: before that, the stream did not name it. Returns the accounts
    that we know and that their own server names."""
    named = []
    for claim in claims:
        state = judge.states.get(claim.did)
        if state is None:
            if claim.active and _is_since(claim.rev, since):
                judge.resync(claim.did, LiveState(told_by=claim.pds), ResyncCause.GAP)
        elif not state.pds or Upstream(claim.pds, is_pds=True).is_home_of(state.pds):
            named.append(claim.did)
            _compare_known(judge, claim, state)
    return named


def is_as_published(claim: ListedAccount, state: LiveState) -> bool:
    """Whether a listing says no more of an account than is known of it."""
    if state.standing is Standing.INACTIVE or not claim.active:
        return not claim.active and state.standing is Standing.INACTIVE
    return "" < claim.rev <= state.rev


def _compare_known(judge: Judge, claim: ListedAccount, state: LiveState) -> None:
    if is_as_published(claim, state):
        return
    if claim.active and not claim.rev and state.standing is not Standing.INACTIVE:
        judge.check_later(claim.did, state)
    else:
        judge.resync(claim.did, state, ResyncCause.GAP)


def _is_since(rev: str, since: int) -> bool:
    try:
        return tid_time_us(rev) >= (since - _CLOCKS_DIFFER) * 1_000_000
    except (Malformed, ValueError):
        return True
