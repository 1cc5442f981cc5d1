"""Who lives on a simulated server, in which state, and how it refuses to show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trawlnet.sim.atproto.accounts import Account, AccountStatus
from trawlnet.sim.atproto.limits import RateLimits
from trawlnet.sim.atproto.live.event_log import FirehoseLog
from trawlnet.sim.atproto.plan import SimHost
from trawlnet.sim.atproto.population import Population
from trawlnet.sim.atproto.shelf import RepoShelf
from trawlnet.sim.atproto.xrpc import BadParameter, XrpcRefusal


@dataclass(frozen=True, slots=True)
class Pdses:
    """What all servers of a world share."""

    population: Population
    shelf: RepoShelf
    limits: RateLimits
    logs: Sequence[FirehoseLog]  # What each tells on its firehose.


def state_on(host: SimHost, account: Account) -> AccountStatus:
    """An account's state as one server sees it."""
    if not account.lives_on_host or host.index not in (account.host, account.former_host):
        return AccountStatus.DELETED
    # An account that moves is deactivated at its old server.
    return account.status if host.index == account.host else AccountStatus.DEACTIVATED


def find(pdses: Pdses, host: SimHost, did: str) -> Account:
    """The account, whatever its state; refuses where this server does not know it."""
    account = pdses.population.find(did)
    if account is None or state_on(host, account) is AccountStatus.DELETED:
        if host.nameless_errors:
            raise XrpcRefusal("InvalidRequest", f"Could not find repo for DID: {did}")
        raise XrpcRefusal("RepoNotFound", f"Could not find repo for DID: {did}")
    return account


def find_open(pdses: Pdses, host: SimHost, did: str) -> Account:
    """The account, if its repository may be read."""
    account = find(pdses, host, did)
    match state_on(host, account):
        case AccountStatus.DEACTIVATED:
            raise XrpcRefusal("RepoDeactivated", f"Repo has been deactivated: {did}")
        case AccountStatus.TAKENDOWN:
            raise XrpcRefusal("RepoTakendown", f"Repo has been takendown: {did}")
        case AccountStatus.SUSPENDED:
            raise XrpcRefusal("RepoSuspended", f"Repo has been suspended: {did}")
        case _:
            return account


def find_readable(pdses: Pdses, host: SimHost, query: Mapping[str, str]) -> Account:
    """The same for the methods that read records, which know one refusal only."""
    repo = query.get("repo")
    if repo is None:
        raise BadParameter('Params must have the property "repo"')
    account = pdses.population.find(repo)
    if account is None or state_on(host, account) is not AccountStatus.ACTIVE:
        raise XrpcRefusal("InvalidRequest", f"Could not find repo: {repo}")
    return account
