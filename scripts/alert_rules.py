"""When Prometheus should call somebody, and what they can do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from board_panels import FAILED

from trawlnet.crawlers.repos.following.figures.live_alerts import (
    ALERT_BEHIND,
    CATCH_UP_GAIN,
    REJECTED_LEAST,
    REJECTED_SHARE,
)
from trawlnet.observe.alerts.rules import (
    DISK_LEAST,
    DISK_PLENTY,
    DISK_SHARE,
    RUNAWAY_LEAST,
    RUNAWAY_SHARE,
)
from trawlnet.observe.metrics import catalogue as names
from trawlnet.observe.metrics.catalogue import Owner
from trawlnet.observe.metrics.ids import STATUSES


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    owner: Owner
    severity: str  # `critical` is for the phone, `warning` for the next morning.
    lasting: str  # How long it must hold.
    expr: str
    summary: str
    what_to_do: str


_TRIES = f"{names.ATTEMPTS}_total"
_MANY = f"{RUNAWAY_LEAST / 300:.3g}"  # Tries a second, from the least in five minutes.
_DISK = names.DISK_BYTES
_SAME_CRAWL = "on (job, instance, crawler)"
_SAME_TARGET = "on (job, instance)"
_STATUS = names.IDS_STATUS
_REJECTED = f"{names.FOLLOW_REJECTED}_total"

# Series that more than one rule or reader needs, by their names.
RECORDED: Mapping[str, str] = {
    "trawlnet:tries:rate5m": f"sum without (reason) (rate({_TRIES}[5m]))",
    "trawlnet:failures:share5m": (
        f'sum without (reason) (rate({_TRIES}{{reason=~"{FAILED}"}}[5m]))'
        " / (trawlnet:tries:rate5m > 0)"
    ),
    "trawlnet:disk_free:share": (
        f'{_DISK}{{kind="free"}} / ignoring (kind) {_DISK}{{kind="size"}}'
    ),
    "trawlnet:ids_lag_seconds:p20": (
        "histogram_quantile(0.2, sum without (status, attempts)"
        f" (rate({names.IDS_LAG}_bucket[5m])))"
    ),
    "trawlnet:ids_not_found:share5m": (
        f'sum without (status, attempts) (rate({_STATUS}{{status="{STATUSES["not_found"]}"}}[5m]))'
        f" / (sum without (status, attempts) (rate({_STATUS}[5m])) > 0)"
    ),
}

RULES: tuple[Rule, ...] = (
    Rule(
        "TrawlnetUnreachable",
        Owner.EVERY,
        "warning",
        "10m",
        'up{job=~"trawlnet.*"} == 0',
        "A crawl cannot be scraped.",
        "It ended, was killed, or its machine is down. The same command continues it.",
    ),
    Rule(
        "TrawlnetStalled",
        Owner.EVERY,
        "critical",
        "15m",
        f"(sum without (reason) (increase({_TRIES}[15m])) == 0)"
        f" and {_SAME_CRAWL} ({names.OPEN_TASKS} - {names.BLOCKED_TASKS} > 0)"
        f" unless {_SAME_CRAWL} ({names.PAUSED} == 1)",
        "A crawl has open tasks, and no attempt has ended for half an hour.",
        "Every host may be waiting: look at the lanes. Else look at the network and the disk.",
    ),
    Rule(
        "TrawlnetErrorsRunAway",
        Owner.EVERY,
        "critical",
        "5m",
        # An attempt of pds is one step of a scan: TrawlnetPdsScansFail counts scans.
        f'trawlnet:failures:share5m{{crawler!="pds"}} > {RUNAWAY_SHARE:g}'
        f" and {_SAME_CRAWL} trawlnet:tries:rate5m >= {_MANY}",
        "More than half of a crawl's attempts fail.",
        "So many hosts are rarely at fault: look at the reasons, and at this machine's network.",
    ),
    Rule(
        "TrawlnetOwnTrouble",
        Owner.EVERY,
        "warning",
        "5m",
        f'increase({_TRIES}{{reason="unknown"}}[15m]) > 0',
        "Attempts fail with the reason unknown, which is not the hosts' fault.",
        "It is a bug, or this machine; the log has a traceback for each attempt.",
    ),
    Rule(
        "TrawlnetHostsBlocked",
        Owner.EVERY,
        "warning",
        "0m",
        f'delta({names.LANES}{{state="blocked"}}[15m]) > 0',
        "Hosts were blocked because they failed too often.",
        "Their tasks stay open; when a host is back, reopen them with the command retry.",
    ),
    Rule(
        "TrawlnetThrottled",
        Owner.EVERY,
        "warning",
        "15m",
        f'sum without (reason) (rate({_TRIES}{{reason="rate_limited"}}[15m]))'
        f" > 0.2 * sum without (reason) (rate({_TRIES}[15m]))",
        "A fifth of a crawl's attempts are rate limited.",
        "The crawl waits as the hosts ask. Lower its request rate.",
    ),
    Rule(
        "TrawlnetDiskNearlyFull",
        Owner.EVERY,
        "critical",
        "5m",
        f'{_DISK}{{kind="free"}} < ignoring (kind) clamp_min(clamp_max('
        f'{DISK_SHARE:g} * {_DISK}{{kind="size"}}, {DISK_PLENTY}), {DISK_LEAST})',
        "The disk of a workspace is nearly full.",
        "Free some space. A full disk stops the crawl; the same command continues it.",
    ),
    Rule(
        "TrawlnetDiskFullSoon",
        Owner.EVERY,
        "warning",
        "30m",
        f'predict_linear({_DISK}{{kind="free"}}[1h], 6 * 3600) < 0',
        "The disk of a workspace will be full within six hours.",
        "Free some space, or move finished files elsewhere.",
    ),
    Rule(
        "TrawlnetFilesNearlyOut",
        Owner.EVERY,
        "warning",
        "10m",
        f"process_open_fds / process_max_fds > 0.9 and {_SAME_TARGET} {names.WORKERS}",
        "A crawl uses more than 90 % of its file descriptors.",
        "Raise the limit (ulimit -n, LimitNOFILE), or lower the number of workers.",
    ),
    Rule(
        "TrawlnetReposNothingWritten",
        Owner.REPOS,
        "critical",
        "10m",
        f'rate({names.REPOS_PROCESSED}_total{{result="ok"}}[15m]) > 0'
        f" and {_SAME_TARGET} (rate({names.BYTES_WRITTEN}_total[15m]) == 0)",
        "Repositories are fetched, and none is written to the archive.",
        "Look at the log and at the disk of the workspace.",
    ),
    Rule(
        "TrawlnetReposRecordsDropped",
        Owner.REPOS,
        "warning",
        "15m",
        f"sum without (reason) (rate({names.RECORDS_DROPPED}_total[30m]))"
        f" > 0.01 * rate({names.REPO_RECORDS}_sum[30m])",
        "More than 1 % of the records are left out of the archive.",
        "The board shows the reasons; limits can be raised in the config.",
    ),
    Rule(
        "TrawlnetFollowBehind",
        Owner.REPOS,
        "warning",
        "5m",
        f"{names.FOLLOW_BEHIND} > {ALERT_BEHIND:g} and {names.FOLLOW_CONNECTED} == 1"
        f" and delta({names.FOLLOW_BEHIND}[5m]) > -{CATCH_UP_GAIN * ALERT_BEHIND:g}",
        "What is published of a firehose is more than five minutes old, and is not catching up.",
        "Look at the CPU and the disk of the machine.",
    ),
    Rule(
        "TrawlnetFollowNotConnected",
        Owner.REPOS,
        "critical",
        "5m",
        f"{names.FOLLOW_CONNECTED} == 0",
        "A firehose is not connected.",
        "The command status says why. What is missed comes when it is back, if it is soon.",
    ),
    Rule(
        "TrawlnetFollowRejected",
        Owner.REPOS,
        "warning",
        "5m",
        f"sum without (reason) (increase({_REJECTED}[5m])) >= {REJECTED_LEAST}"
        f" and sum without (reason) (rate({_REJECTED}[5m]))"
        f" > {REJECTED_SHARE:g} * sum without (kind) (rate({names.FOLLOW_FRAMES}_total[5m]))",
        "More than a tenth of the messages of firehoses fail verification.",
        "The reasons tell who is at fault: a relay that falsifies, a PDS, or an old version here.",
    ),
    Rule(
        "TrawlnetPdsScansFail",
        Owner.PDS,
        "warning",
        "15m",
        f'sum without (status) (increase({names.PDS_SCANS}_total{{status="error"}}[1h]))'
        f" > 0.5 * (sum without (status) (increase({names.PDS_SCANS}_total[1h])) >= 10)",
        "More than half of the scans of the last hour failed.",
        "Look at the failures of the pds crawl, and at this machine's network.",
    ),
    Rule(
        "TrawlnetPdsRecordsRefused",
        Owner.PDS,
        "warning",
        "30m",
        f"sum without (collection, status)"
        f' (rate({names.PDS_RECORDS_INDEXED}_total{{status="error"}}[30m]))'
        f" > 0.1 * sum without (collection, status) (rate({names.PDS_RECORDS_INDEXED}_total[30m]))",
        "More than 10 % of the records cannot be indexed.",
        "Their schema may have changed: look at the log.",
    ),
    Rule(
        "TrawlnetRegistryErrors",
        Owner.PDS,
        "critical",
        "10m",
        f"sum without (route, status_class)"
        f' (rate({names.REGISTRY_REQUESTS}_total{{status_class="5xx"}}[10m]))'
        f" > 0.05 * sum without (route, status_class)"
        f" (rate({names.REGISTRY_REQUESTS}_total[10m]))",
        "The registry answers with server errors.",
        "Look at its log and at its database.",
    ),
    Rule(
        "TrawlnetIdsLagging",
        Owner.IDS,
        "critical",
        "10m",
        "trawlnet:ids_lag_seconds:p20 > 300",
        "The newest ids are stored more than five minutes late.",
        "Look at the workers, at throttling, and at the share of 404; max_rps may be too low.",
    ),
    Rule(
        "TrawlnetIdsApiOff",
        Owner.IDS,
        "warning",
        "5m",
        f"sum without (status, attempts)"
        f' (rate({_STATUS}{{status="{STATUSES["disabled"]}"}}[5m])) > 0',
        "The API says that it is switched off.",
        "The crawl looks now and then, and goes on by itself.",
    ),
    Rule(
        "TrawlnetIdsNewestOld",
        Owner.IDS,
        "warning",
        "10m",
        f"{names.IDS_NEWEST_AGE} > 900",
        "The newest id that was fetched is more than a quarter of an hour old.",
        "Ids have stopped coming, the API or the key refuses them, or the crawl catches up.",
    ),
    Rule(
        "TrawlnetIdsMostlyNotFound",
        Owner.IDS,
        "warning",
        "15m",
        "trawlnet:ids_not_found:share5m > 0.5",
        "More than half of the requests ask for ids that are not there.",
        "A gap is being crossed, or nothing new is published: look at the gaps.",
    ),
    Rule(
        "TrawlnetWebNothingStored",
        Owner.WEB,
        "warning",
        "30m",
        f'rate({names.HTTP_REQUESTS}_total{{crawler="web",status_class="2xx"}}[15m]) > 0'
        f" and {_SAME_TARGET} (sum without (page_type) (rate({names.WEB_PAGES}_total[15m]))"
        f" + rate({names.WEB_UNCHANGED}_total[15m]) == 0)",
        "Pages are fetched, and none is stored.",
        "Look at the content types, at the policy, and at the disk.",
    ),
)
