"""Target `torchrun`: PyTorch's own launcher, typed on every machine."""

from __future__ import annotations

from autoaccel.export.containers import contained, python_of
from autoaccel.records.launch import Job, Rendered
from autoaccel.records.recipe import Recipe

_RENDEZVOUS_PORT = 29400  # torchrun's own for c10d


class Torchrun:
    """`python -m torch.distributed.run`. Source: PyTorch's manual of torchrun."""

    name = "torchrun"

    def check(self, recipe: Recipe, job: Job) -> list[str]:
        return []

    def render(self, recipe: Recipe, job: Job) -> Rendered:
        options = ["--nproc-per-node", str(job.ranks)]
        if job.nodes == 1:
            options.insert(0, "--standalone")
        else:
            endpoint = f"{job.main_address}:{_RENDEZVOUS_PORT}"
            options = ["--nnodes", str(job.nodes), *options]
            options += ["--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", job.name]
        if job.max_restarts:
            options += ["--max-restarts", str(job.max_restarts)]
        command = (python_of(job), "-m", "torch.distributed.run", *options, "-m", "autoaccel", *job.arguments)
        threads = int(recipe.settings.get("threads.intra_op") or recipe.machine.usable_cores)
        # torchrun gives each rank one thread unless told.
        # Its agents keep one store for all restarts unless told, in which new ranks find the addresses of dead ones;
        # and machines do not agree on how many restarts there were (pytorch#135712).
        environment = {
            "OMP_NUM_THREADS": str(max(1, threads // job.ranks)),
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        # One container for each machine, with launcher and ranks in it: outside, there may be no torch.
        contains = contained(recipe, job, command, environment)
        return Rendered(contains, environment=environment, machines=job.nodes)


TARGET = Torchrun()
