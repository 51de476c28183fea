"""Two nodes of which one is killed in the middle; prints what came out as JSON. Run by test_ray_nodes.py."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence

import ray
from ray.cluster_utils import Cluster

from spotchange.cluster import ClusterOptions, run_on_ray


class Slow:
    def start(self) -> Callable[[Sequence[int]], Iterator[tuple[int, str]]]:
        node = ray.get_runtime_context().get_node_id()

        def squares(numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
            for number in numbers:
                time.sleep(0.3)
                yield number * number, node

        return squares

    def failed(self, item: int, reason: str) -> tuple[int, str]:
        return -1, reason


def main() -> None:
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 2**27})
    second = nodes.add_node(num_cpus=1, object_store_memory=2**27)
    wanted = {number: list(range(5 * number, 5 * number + 5)) for number in range(16)}
    found, killed = [], False
    for number, results in run_on_ray(Slow(), wanted, ClusterOptions(address=nodes.address, workers=2)):
        found.append((number, results))
        seen = {node for _, piece in found for _, node in piece}
        if not killed and len(seen) == 2:  # both have worked
            nodes.remove_node(second, allow_graceful=False)
            killed = True
    print(json.dumps({"killed": killed, "found": found}))
    nodes.shutdown()


if __name__ == "__main__":
    main()
