"""One process of a group, for `test_processes.py`: loss and gradients of its half of every batch."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import torch
import torch.distributed as distributed
from torch.nn.parallel import DistributedDataParallel


def main(rank: int, rendezvous: str, out: Path) -> None:
    """Join the group, compute, and let the first process write what all of them found."""
    spec = importlib.util.spec_from_file_location("whole_batch", Path(__file__).with_name("whole_batch.py"))
    whole_batch = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(whole_batch)
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=2)
    from spotchange.training.distributed import mean_over_processes

    found = {}
    for kind in whole_batch.KINDS:
        objective, batch = whole_batch.objective_and_batch(kind)
        half = len(batch) // 2
        parallel = DistributedDataParallel(objective, find_unused_parameters=True)
        results = parallel(batch[rank * half : (rank + 1) * half])
        results["loss"].backward()
        loss = mean_over_processes({"loss": results["loss"]})["loss"]
        found[kind] = {"loss": loss, "gradients": whole_batch.gradients(objective)}
    if rank == 0:
        torch.save(found, out)
    distributed.barrier()  # neither takes the group down while the other still speaks
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
    sys.stdout.flush()
    os._exit(0)  # gloo's threads may outlive the interpreter, which then aborts: now and then, after all is done
