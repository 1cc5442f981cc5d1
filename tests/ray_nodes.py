"""A Ray cluster of several nodes on this machine, and which processes belong to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def ray_cluster(nodes: int) -> Iterator[Any]:
    """A head and so many nodes, each of processes of its own; connected to."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False},
    )
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def raylets_of(cluster: Any) -> list[int]:
    """The one of the head first; others on this machine may have clusters, too."""
    nodes = [cluster.head_node, *cluster.worker_nodes]
    found = [node.all_processes.get("raylet", []) for node in nodes]
    return [processes[0].process.pid for processes in found if processes]


def raylet_of(pid: int) -> int:
    """Of a worker; 0 of one that is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def pids_of(title: bytes, raylets: list[int]) -> list[int]:
    """Workers of these raylets that are at this."""
    found = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline")]
    return [pid for pid in found if raylet_of(pid) in raylets and _is_called(pid, title)]


def _is_called(pid: int, title: bytes) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(title)
    except OSError:
        return False
