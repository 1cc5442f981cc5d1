"""All accounts of a world, as indexes: who has which DID, who lives where, who did what when."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from trawlnet.sim.atproto.accounts import Account, account_at, web_account_at
from trawlnet.sim.atproto.history import did_at_genesis, steps_of
from trawlnet.sim.atproto.keyring import QuickKey
from trawlnet.sim.atproto.plan import WorldPlan


@dataclass(frozen=True, slots=True)
class Population:
    """Some 200 bytes per account; everything else about one is worked out when asked for."""

    plan: WorldPlan
    keyring: tuple[QuickKey, ...]
    dids: Sequence[str]
    index: dict[str, int]
    members: Sequence[array[int]]  # Per host, in order of arrival; those who moved away too.
    web_hosts: Sequence[int]  # The hosts of the did:web accounts, which come after all others.
    log: array[int]  # The directory's log: 4 * account + number of the step, in order of time.
    changed: dict[int, Account] = field(default_factory=dict)  # Since the world began.

    def account(self, index: int) -> Account:
        if index in self.changed:
            return self.changed[index]
        if index < self.plan.accounts:
            return account_at(self.plan, self.keyring, index)
        host = self.web_hosts[index - self.plan.accounts]
        return web_account_at(self.plan, self.keyring, index, host)

    def enter(self, account: Account) -> None:
        """The directory entry of an account has changed: its second operation is made."""
        self.changed[account.index] = account
        self.log.append(STEPS_PER_ACCOUNT * account.index + 1)

    def find(self, did: str) -> Account | None:
        index = self.index.get(did)
        return None if index is None else self.account(index)

    def __len__(self) -> int:
        return len(self.dids)


STEPS_PER_ACCOUNT = 4  # At most; the base of the numbers in `log`.


def populate(plan: WorldPlan, keyring: tuple[QuickKey, ...]) -> Population:
    dids: list[str] = []
    members = [array("L") for _ in plan.hosts]
    when: list[tuple[int, int]] = []
    for index in range(plan.accounts):
        account = account_at(plan, keyring, index)
        dids.append(did_at_genesis(plan, account))
        if account.lives_on_host:
            members[account.host].append(index)
            if account.former_host is not None:
                members[account.former_host].append(index)
        for number, slot in enumerate(steps_of(account)):
            when.append((slot, STEPS_PER_ACCOUNT * index + number))
    when.sort()
    web_hosts = [host.index for host in plan.hosts if host.has_web_account]
    for number, place in enumerate(web_hosts):
        dids.append(plan.hosts[place].web_did)
        members[place].append(plan.accounts + number)
    index_of = {did: index for index, did in enumerate(dids)}
    log = array("L", (entry for _, entry in when))
    return Population(plan, keyring, dids, index_of, members, web_hosts, log)
