"""Ranks, read from environments that launchers really made (launchers/*.env: only the variables that matter)."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoaccel.errors import BadRequestError
from autoaccel.machine.ranks import RANK_VARIABLES, first_host, rank_of, tasks_per_node

RECORDED = Path(__file__).parent / "launchers"
HERE = "127.0.0.1"


def recorded(name: str) -> dict[str, str]:
    """Return the variables of one recorded process."""
    lines = (RECORDED / f"{name}.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.mark.parametrize(
    ("name", "launcher", "rank", "local", "nodes", "node_rank", "address"),
    [
        ("torchrun-rank1-of-2", "torchrun", (1, 2), (1, 2), 1, 0, "localhost"),
        ("openmpi-4.1.4-rank1-of-2", "mpirun", (1, 2), (1, 2), 1, 0, HERE),
        ("openmpi-5.0.11-rank1-of-2", "mpirun", (1, 2), (1, 2), 1, 0, HERE),
        ("openmpi-4.1.4-rank2-of-3-two-machines", "mpirun", (2, 3), (0, 1), None, None, "vm"),
        ("openmpi-5.0.11-rank2-of-3-two-machines", "mpirun", (2, 3), (0, 1), None, None, "vm"),
        ("openmpi-4.1.4-in-slurm-rank1-of-2", "mpirun", (1, 2), (1, 2), 1, 0, HERE),
        ("mpich-4.0.2-rank1-of-2", "pmi", (1, 2), (1, 2), 1, 0, HERE),
        ("slurm-22.05-srun-pmi2-rank1-of-2", "slurm", (1, 2), (1, 2), 1, 0, HERE),
        ("slurm-22.05-srun-rank2-of-3-two-machines", "slurm", (2, 3), (0, 1), 2, 1, "node1"),
        ("slurm-22.05-step-in-batch-rank2-of-4-two-machines", "slurm", (2, 4), (0, 2), 2, 1, "node1"),
        # sbatch asked for two tasks on each machine, this step has three: the batch's own variable would be wrong.
        ("slurm-22.05-step-in-batch-rank2-of-3-two-machines", "slurm", (2, 3), (0, 1), 2, 1, "node1"),
    ],
)
def test_a_rank_is_read_from_what_its_launcher_set(name, launcher, rank, local, nodes, node_rank, address) -> None:
    environ = recorded(name)
    if launcher == "mpirun" and nodes is None:
        environ["MASTER_ADDR"] = "vm"  # as our own command passes it
    found = rank_of(environ)
    assert found is not None
    assert found.launcher == launcher
    assert (found.rank, found.world_size) == rank
    assert (found.local_rank, found.local_world_size) == local
    assert (found.nodes, found.node_rank) == (nodes, node_rank)
    assert found.main_address == address
    assert 1024 <= found.main_port < 65536


@pytest.mark.parametrize(
    "name",
    ["slurm-22.05-batch-script", "slurm-22.05-salloc-shell", "slurm-22.05-srun-pty-shell", "slurm-interactive-step"],
)
def test_a_shell_inside_a_slurm_job_is_no_rank(name: str) -> None:
    assert rank_of(recorded(name)) is None


def test_a_process_that_no_launcher_started_is_no_rank() -> None:
    assert rank_of({"PATH": "/usr/bin", "MASTER_ADDR": "a", "MASTER_PORT": "1", "OMP_NUM_THREADS": "2"}) is None
    assert rank_of({"RANK": "", "WORLD_SIZE": ""}) is None
    # What a cluster's own scripts see before and after a job: a step, but no task.
    assert rank_of({"SLURM_STEP_ID": "4294967294", "SLURM_JOB_ID": "4", "SLURM_NODELIST": "a"}) is None


def test_torchrun_inside_a_slurm_step_decides() -> None:
    slurm = recorded("slurm-22.05-step-in-batch-rank2-of-4-two-machines")
    found = rank_of({**slurm, **recorded("torchrun-rank1-of-2")})
    assert found is not None
    assert (found.launcher, found.world_size, found.main_port) == ("torchrun", 2, 43049)


def test_mpich_that_slurm_started_once_for_each_machine_decides() -> None:
    slurm = recorded("slurm-22.05-step-in-batch-rank2-of-4-two-machines")
    found = rank_of({**slurm, **recorded("mpich-4.0.2-rank1-of-2")})
    assert found is not None
    assert (found.launcher, found.rank, found.world_size) == ("pmi", 1, 2)


def test_all_ranks_of_a_job_agree_on_a_port_and_jobs_do_not() -> None:
    environ = recorded("slurm-22.05-srun-rank2-of-3-two-machines")
    other = {**environ, "SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_NODEID": "0"}
    next_job = {**environ, "SLURM_JOB_ID": "2"}
    next_step = {**environ, "SLURM_STEP_ID": "1"}
    ports = [rank_of(variables).main_port for variables in (environ, other, next_job, next_step)]  # type: ignore[union-attr]  # None fails the test
    assert ports[0] == ports[1]
    assert len(set(ports)) == 3
    assert all(20000 <= port < 30000 for port in ports)  # below the ports that Linux gives to anybody


def test_a_port_and_an_address_that_were_told_are_used() -> None:
    environ = recorded("slurm-22.05-srun-rank2-of-3-two-machines")
    found = rank_of({**environ, "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"})
    assert found is not None
    assert (found.main_address, found.main_port) == ("10.0.0.1", 29500)


def test_a_rank_is_told_on_as_torch_reads_it() -> None:
    found = rank_of(recorded("slurm-22.05-srun-pmi2-rank1-of-2"))
    assert found is not None
    again = rank_of(found.variables)
    assert again is not None
    assert (again.rank, again.world_size, again.local_rank) == (1, 2, 1)
    assert (again.main_address, again.main_port) == (found.main_address, found.main_port)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("torchrun-rank1-of-2", {"LOCAL_RANK": None}, "RANK is set but LOCAL_RANK is not"),
        ("torchrun-rank1-of-2", {"MASTER_ADDR": None}, "RANK is set but MASTER_ADDR is not"),
        ("torchrun-rank1-of-2", {"RANK": "two"}, "RANK must be a whole number, got two"),
        ("torchrun-rank1-of-2", {"RANK": "2"}, "rank 2 of 2"),
        ("openmpi-5.0.11-rank1-of-2", {"OMPI_COMM_WORLD_LOCAL_SIZE": None}, "OMPI_COMM_WORLD_LOCAL_SIZE is not"),
        ("openmpi-5.0.11-rank2-of-3-two-machines", {}, "MASTER_ADDR must name rank 0's machine"),
        ("mpich-4.0.2-rank1-of-2", {"PMI_SIZE": None}, "PMI_RANK is set but PMI_SIZE is not"),
        ("slurm-22.05-srun-pmi2-rank1-of-2", {"SLURM_PROCID": None}, "SLURM_STEP_ID is set but SLURM_PROCID is not"),
        ("slurm-22.05-srun-pmi2-rank1-of-2", {"SLURM_STEP_TASKS_PER_NODE": "3"}, "must list 2 tasks"),
        ("slurm-22.05-srun-pmi2-rank1-of-2", {"SLURM_NODEID": "1"}, "including those of machine 1, got 2"),
    ],
)
def test_half_set_variables_are_one_clear_error(name: str, changes: dict[str, str | None], message: str) -> None:
    environ = {key: value for key, value in {**recorded(name), **changes}.items() if value is not None}
    with pytest.raises(BadRequestError, match=message):
        rank_of(environ)


def test_a_rank_without_a_size_is_an_error() -> None:
    with pytest.raises(BadRequestError, match="PMIX_RANK is set but PMI_SIZE is not"):
        rank_of({"PMIX_RANK": "0", "PMIX_NAMESPACE": "prterun-vm-1@1"})


@pytest.mark.parametrize("name", sorted(path.stem for path in RECORDED.glob("*.env")))
def test_what_is_passed_on_to_a_container_is_all_that_tells_a_rank(name: str) -> None:
    environ = {**recorded(name), "MASTER_ADDR": "vm"}
    assert rank_of({key: environ[key] for key in RANK_VARIABLES if key in environ}) == rank_of(environ)


@pytest.mark.parametrize(
    ("text", "tasks"),
    [("2", (2,)), ("2(x3),1", (2, 2, 2, 1)), ("1,4(x2)", (1, 4, 4)), ("", ()), ("2(x", ()), ("a", ())],
)
def test_tasks_per_node_as_slurm_writes_them(text: str, tasks: tuple[int, ...]) -> None:
    assert tasks_per_node(text) == tasks


@pytest.mark.parametrize(
    ("hosts", "first"),
    [
        ("login", "login"),
        ("node[01-04,7]", "node01"),
        ("node[7,01-04],login", "node7"),
        ("rack[1-2]-gpu[003-004]-ib0,other", "rack1-gpu003-ib0"),
        ("a,b[1-2]", "a"),
        ("10-0-3-12", "10-0-3-12"),
        ("", ""),
    ],
)
def test_the_first_host_of_a_list_as_slurm_writes_it(hosts: str, first: str) -> None:
    assert first_host(hosts) == first
