"""A Ray cluster of several nodes on this machine, and which processes belong to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.program import wait_until


@contextmanager
def ray_cluster(nodes: int) -> Iterator[Any]:
    """A head and so many nodes, each of processes of its own; connected to."""
    import ray
    from ray.cluster_utils import Cluster

    cluster: Any = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False},
    )
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
        _until_all_are_known(ray, nodes + 1)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def _until_all_are_known(ray: Any, nodes: int) -> None:
    """A node that is there may still be unknown to the one that shares out the work."""

    def here() -> str:
        return str(ray.get_runtime_context().get_node_id())

    somewhere = ray.remote(num_cpus=0, memory=1, scheduling_strategy="SPREAD")(here)
    seen: set[str] = set()

    def all_seen() -> bool:
        seen.update(ray.get([somewhere.remote() for _ in range(nodes)]))
        return len(seen) == nodes

    wait_until(all_seen, f"work on {nodes} nodes")


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
