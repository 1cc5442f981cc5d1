"""Who lives on a simulated server, in which state, and how it refuses to show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trawlnet.sim.atproto.accounts import Account, Status
from trawlnet.sim.atproto.limits import RateLimits
from trawlnet.sim.atproto.plan import Host
from trawlnet.sim.atproto.population import Population
from trawlnet.sim.atproto.shelf import Shelf
from trawlnet.sim.atproto.xrpc import BadParameter, Refusal


@dataclass(frozen=True, slots=True)
class Pdses:
    """What all servers of a world share."""

    population: Population
    shelf: Shelf
    limits: RateLimits


def state_on(host: Host, account: Account) -> Status:
    """An account's state as one server sees it."""
    if not account.lives_on_host or host.index not in (account.host, account.former_host):
        return Status.DELETED
    # Whoever moves away is switched off where they came from.
    return account.status if host.index == account.host else Status.DEACTIVATED


def find(pdses: Pdses, host: Host, did: str) -> Account:
    """The account, whatever its state; refuses where this server does not know it."""
    account = pdses.population.find(did)
    if account is None or state_on(host, account) is Status.DELETED:
        if host.nameless_errors:
            raise Refusal("InvalidRequest", f"Could not find repo for DID: {did}")
        raise Refusal("RepoNotFound", f"Could not find repo for DID: {did}")
    return account


def find_open(pdses: Pdses, host: Host, did: str) -> Account:
    """The account, if its repository may be read."""
    account = find(pdses, host, did)
    match state_on(host, account):
        case Status.DEACTIVATED:
            raise Refusal("RepoDeactivated", f"Repo has been deactivated: {did}")
        case Status.TAKENDOWN:
            raise Refusal("RepoTakendown", f"Repo has been takendown: {did}")
        case Status.SUSPENDED:
            raise Refusal("RepoSuspended", f"Repo has been suspended: {did}")
        case _:
            return account


def find_readable(pdses: Pdses, host: Host, query: Mapping[str, str]) -> Account:
    """The same for the methods that read records, which know one refusal only."""
    repo = query.get("repo")
    if repo is None:
        raise BadParameter('Params must have the property "repo"')
    account = pdses.population.find(repo)
    if account is None or state_on(host, account) is not Status.ACTIVE:
        raise Refusal("InvalidRequest", f"Could not find repo: {repo}")
    return account
