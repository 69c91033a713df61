"""Every check and study, declared once: `benchmarks.run`, its list, the README and the page go by it."""

from __future__ import annotations

from typing import Literal

from autoaccel.records.base import Record

Kind = Literal["check", "study"]


class Benchmark(Record, frozen=True):
    """A script, and the results that it adds rows to."""

    name: str
    module: str
    """Of the script, below `benchmarks`."""
    help: str
    """What it shows, or checks; Markdown."""
    rows: dict[str, int]
    """Result -> how many rows of different names make it complete."""
    minutes: int
    """That it takes on two cores."""
    needs: str = ""
    """What it installs, or must be allowed to."""
    extra: str = ""
    """Of pyproject.toml, that is installed first."""
    packages: tuple[str, ...] = ()
    """Of Debian, that are installed first."""
    ends_in_time: bool = False
    """Whether it takes `--minutes`."""
    is_asked_for: bool = False
    """Whether it runs only if it is named."""
    is_twofold: bool = False
    """Whether it is started again after all others, because its second half must wait."""

    @property
    def kind(self) -> Kind:
        """Whether it asks if something works, or how good something is."""
        return "check" if self.module.startswith("checks.") else "study"


_TRAININGS = "installs torchvision, timm and transformers"

BENCHMARKS = (
    Benchmark(
        "tables", "studies.tables.measure",
        "what *is* best: every setting of a space, measured again and again",
        {"tables": 6}, 180,
    ),
    Benchmark(
        "examples", "studies.examples",
        "what a user gets on the four examples",
        {"examples": 4}, 40,
    ),
    Benchmark(
        "claims", "studies.claims",
        "whether a claim is still true an hour later, in fresh processes",
        {"claims": 14}, 80, is_twofold=True,
    ),
    Benchmark(
        "simulate", "studies.tables.simulate",
        "how close a search comes, for what cost, against its peers, 200 times on each table",
        {"simulation": 6}, 20,
    ),
    Benchmark(
        "samplers", "studies.tables.samplers",
        "the same with each sampler of `autoaccel tune --sampler` in the place of autoaccel's own",
        {"samplers": 6}, 25, needs="installs cmaes and scipy", extra="samplers",
    ),
    Benchmark(
        "bounds", "studies.tables.bounds",
        "what bounds are worth to a search, on the tables",
        {"bounds": 6}, 10,
    ),
    Benchmark(
        "simulated-machines", "studies.simulated_machines.measure",
        "how close twelve trials come to the best on machines that are only recorded, by a model of each",
        {"simulated_machines": 6}, 60,
    ),
    Benchmark(
        "live", "studies.live",
        "the same as `simulate` for real, in the same wall time, all picks measured side by side",
        {"live": 6}, 90,
    ),
    Benchmark(
        "unseen", "studies.unseen.measure",
        "what fifteen trainings of real size get, half of which chose no constant of the tuner, beside a hand grid and "
        "peers",
        {"unseen": 75}, 640, needs=_TRAININGS, extra="unseen", ends_in_time=True,
    ),
    Benchmark(
        "evidence", "studies.evidence.measure",
        "what proofs are worth where metrics are hard to judge: twelve recipes beside eight settings that were fixed "
        "beforehand",
        {"evidence": 12}, 110, ends_in_time=True,
    ),
    Benchmark(
        "budgets", "studies.budgets",
        "what a tune hands back in one to eight minutes: nineteen tries",
        {"budgets": 19}, 45, needs=_TRAININGS, extra="unseen", ends_in_time=True,
    ),
    Benchmark(
        "scripts", "studies.scripts",
        "what scripts get as they are; those of well-known trainers beside the trainers' own options",
        {"scripts": 5}, 60, needs="installs Lightning, transformers, accelerate, timm and torchvision", extra="scripts",
        ends_in_time=True,
    ),
    Benchmark(
        "live-scripts", "studies.live_scripts",
        "scripts as they are, tuned while they train: whether they end as in plain Python, and how much sooner",
        {"live_scripts": 7}, 35, needs="installs Lightning, transformers, accelerate, timm and torchvision",
        extra="scripts", ends_in_time=True,
    ),
    Benchmark(
        "script-overhead", "studies.script_overhead",
        "what autoaccel adds to the steps of scripts, in their runs and where it measures them, beside plain Python",
        {"script_overhead": 5}, 20,
    ),
    Benchmark(
        "script-hooks", "studies.script_hooks",
        "how long a step of a script is within the hooks of its measurement, by the clock",
        {"script_hooks": 5}, 6,
    ),
    Benchmark(
        "scatter", "studies.scatter",
        "how much pairs of processes scatter in the recorded tables, and whether intervals hold",
        {"scatter": 7}, 1,
    ),
    Benchmark(
        "means", "studies.means.measure",
        "whether proofs speak of the mean step time: simulated processes with rare long steps, or that settle",
        {"means": 60}, 10,
    ),
    Benchmark(
        "replays", "studies.replays",
        "what a training that is tuned while it runs keeps, and what that costs: simulated steps",
        {"replays": 27}, 20,
    ),
    Benchmark(
        "harms", "studies.harms.measure",
        "whether settings that harm a training are given up that is tuned while it runs: 40 that were planted",
        {"harms": 5}, 25, ends_in_time=True,
    ),
    Benchmark(
        "live-neighbour", "studies.live_neighbour.measure",
        "what a training takes that is tuned while it runs beside a neighbour that comes and goes, beside plain Python",
        {"live_neighbour": 2}, 25, ends_in_time=True,
    ),
    Benchmark(
        "first-runs", "studies.first_runs.measure",
        "what the first run of an unseen training takes that is tuned while it trains, beside plain Python",
        {"first_runs": 15}, 400, needs=_TRAININGS, extra="unseen", ends_in_time=True,
    ),
    Benchmark(
        "independence", "studies.independence",
        "whether pairs of processes are independent if the baseline stays alive from pair to pair",
        {"independence": 2}, 20, ends_in_time=True,
    ),
    Benchmark(
        "false-wins", "studies.false_wins",
        "how often settings that change nothing are called faster: 2,000 replayed and 100 live comparisons",
        {"false_wins": 5}, 60, ends_in_time=True,
    ),
    Benchmark(
        "search-cost", "studies.search_cost",
        "what a run spends its time on, and what the tuner itself takes",
        {"search_cost": 1}, 5,
    ),
    Benchmark(
        "neighbour", "studies.neighbour",
        "what a neighbour that hogs all cores in bursts does to the pick",
        {"neighbour": 1}, 30,
    ),
    Benchmark(
        "break-even", "studies.break_even",
        "that 50 steps are left eager, and 50,000 compiled if that is better",
        {"break_even": 2}, 30,
    ),
    Benchmark(
        "planted", "studies.planted.measure",
        "whether `autoaccel advise` names planted problems, and whether repairs win what it says",
        {"planted": 13}, 30,
    ),
    Benchmark(
        "advice", "studies.advice",
        "how long advice takes on the examples, and whether the shares of its phases add up",
        {"advice": 4}, 10,
    ),
    Benchmark(
        "verify", "studies.verify",
        "whether `autoaccel verify` can fail: 30 planted false claims, none of which may hold, and 30 true ones",
        {"verify": 60}, 30,
    ),
    Benchmark(
        "rounding", "studies.rounding.measure",
        "whether rounding that is planted in eight trainings harms them, and whether updates tell; half of them set "
        "the limits",
        {"rounding": 376}, 60,
    ),
    Benchmark(
        "ranks", "checks.ranks",
        "what ranks leave behind, how they end, whether they pay",
        {"ranks": 6}, 90,
    ),
    Benchmark(
        "sharing", "checks.sharing",
        "four workers of one study, one killed in a trial: is anything lost, or run twice?",
        {"sharing": 1}, 20, needs="installs PostgreSQL", packages=("postgresql",),
    ),
    Benchmark(
        "knobs", "checks.knobs",
        "every two knobs in one process",
        {"pairs": 50}, 70,
    ),
    Benchmark(
        "pruning", "studies.pruning",
        "sparsity against time and accuracy, in both libraries that prune",
        {"pruning": 18}, 45,
    ),
    Benchmark(
        "libraries", "studies.libraries",
        "what OpenMP runtimes and allocators do here",
        {"libraries": 3}, 120, needs="installs jemalloc, tcmalloc and Intel's OpenMP", extra="intel",
        packages=("libjemalloc2", "libtcmalloc-minimal4"),
    ),
    Benchmark(
        "nni", "checks.nni",
        "half of the channels of two models removed by NNI",
        {"nni": 1}, 5, needs="an environment of its own",
    ),
    Benchmark(
        "ipex", "checks.ipex",
        "an example tuned with Intel's extension",
        {"ipex": 1}, 20, needs="an environment of its own, 7 GB",
    ),
    Benchmark(
        "launchers", "checks.launchers",
        "the same recipe through torchrun, Open MPI (two versions) and Slurm",
        {"launchers": 1}, 15, needs="installs Open MPI and Slurm",
    ),
    Benchmark(
        "machines", "checks.machines",
        "two machines with addresses of their own; a rank is killed",
        {"machines": 1}, 5, needs="root",
    ),
    Benchmark(
        "hard-cases", "checks.hard_cases",
        "scripts as people write them, each tuned for a minute and run: how they end, and what is left behind",
        {"hard_cases": 33}, 45, ends_in_time=True,
    ),
    Benchmark(
        "packages", "checks.packages.measure",
        "trainings by twelve well-known packages: is what a tune believes of them right before it measures?",
        {"packages": 12}, 30, needs="six environments of its own, 16 GB", is_asked_for=True,
    ),
    Benchmark(
        "users-files", "checks.users_files.measure",
        "scripts that write to the user's files in every way: are these as they were, and are the samples the same?",
        {"users_files": 6}, 20, needs="root, for other users and rights; xfsprogs; installs h5py", extra="files",
    ),
    Benchmark(
        "public-scripts", "checks.public_scripts.measure",
        "public scripts from thirty packages that no test knows: is what autoaccel believes of them right?",
        {"public_scripts": 30}, 80, needs="checkouts of them, and two environments with their packages",
        is_asked_for=True,
    ),
    Benchmark(
        "soak", "checks.soak",
        "600 real trials of a tiny training, some of which fail or leave processes behind, and 10,000 replayed ones: "
        "does anything grow, is anything left?",
        {}, 60, is_asked_for=True,
    ),
    Benchmark(
        "faults", "checks.faults",
        "faults that some settings of a training meet: how they are called, whether the search goes on, what is left "
        "behind and what is picked",
        {"faults": 38}, 80, needs="root, for a cgroup and mounts", ends_in_time=True,
    ),
    Benchmark(
        "report", "checks.report",
        "reports in a real browser: script errors, requests, sorting, plots, a telephone's width, dark and light",
        {"report_page": 1}, 2, needs="installs Chromium", packages=("chromium",),
    ),
    Benchmark(
        "layouts", "studies.layouts",
        "steps of eight convolutional networks: `layout.channels_last` as it is, and if it converted weights",
        {"layouts": 8}, 12,
    ),
    Benchmark(
        "scaling", "studies.scaling.measure",
        "how well a published series of run times with more GPUs is predicted",
        {"scaling": 1}, 1,
    ),
    Benchmark(
        "remedies", "studies.tables.remedies",
        "the same as `held` with rates and gains from one machine, for the six workloads",
        {"remedies": 6}, 60,
    ),
    Benchmark(
        "held", "studies.tables.held",  # after the remedies that it compares with
        "whether any measured remedy won more than advice says it can, and how far bounds are above gains",
        {"held": 14}, 1,
    ),
    Benchmark(
        "seeds", "studies.seeds",
        "how a metric's drop scatters from seed to seed, beside what its evaluation samples alone let expect; how "
        "often proofs on such runs accept harmless and harmful settings",
        {"seeds": 15}, 60, is_asked_for=True,
    ),
    Benchmark(
        "gpu", "checks.gpu",
        "on a CUDA GPU: every knob's effect, two tunes, and what `pytorch-autotune` finds for the same models; exit 2 "
        "without a GPU",
        {"gpu": 3}, 10, is_asked_for=True,
    ),
    Benchmark(
        "versions", "checks.versions",
        "the suite, a tune and a launch by torchrun with the lowest versions of `pyproject.toml`, a middle torch and "
        "the newest",
        {"versions": 9}, 120, needs="three environments of its own, 20 GB", is_asked_for=True,
    ),
    Benchmark(
        "wheel", "checks.wheel",
        "the wheel installed in an environment of its own, and a tune in a folder with spaces",
        {}, 6, needs="an environment of its own", is_asked_for=True,
    ),
)  # fmt: skip
"""In the order in which they run."""
