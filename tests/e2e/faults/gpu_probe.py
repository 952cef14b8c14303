"""An optimizer that says, into the log of its run, which GPUs it sees; it may hang in a job's first life."""

import os
import time

import torch


class Probe(torch.optim.SGD):
    def __init__(self, params, lr):
        super().__init__(params, lr=lr)
        print(f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES')}", flush=True)  # noqa: T201
        print(f"threads={torch.get_num_threads()}", flush=True)  # noqa: T201
        if os.environ.get("HANGS_FIRST") and "SLURM_RESTART_COUNT" not in os.environ:
            time.sleep(600)
