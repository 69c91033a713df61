"""An interatomic potential by MACE on made structures, as its documentation calls its program from Python."""

import sys

import numpy as np
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.io import write
from mace.cli.run_train import main

random = np.random.default_rng(0)
frames = []
for _ in range(60):
    atoms = bulk("Cu", cubic=True)
    atoms.rattle(0.1, rng=random)
    atoms.calc = EMT()
    atoms.info["REF_energy"] = atoms.get_potential_energy()
    atoms.arrays["REF_forces"] = atoms.get_forces()
    atoms.calc = None
    frames.append(atoms)
write("train.xyz", frames[:50])
write("valid.xyz", frames[50:])

sys.argv = [
    "mace_run_train",
    "--name=small",
    "--train_file=train.xyz",
    "--valid_file=valid.xyz",
    "--E0s=average",
    "--energy_key=REF_energy",
    "--forces_key=REF_forces",
    "--hidden_irreps=8x0e",
    "--num_radial_basis=4",
    "--correlation=2",
    "--r_max=3.5",
    "--batch_size=5",
    "--valid_batch_size=5",
    "--max_num_epochs=8",
    "--device=cpu",
    "--default_dtype=float32",
    "--seed=0",
]
main()
