# Two commands for everybody: `make demo` and `make test`. Both first make .venv if it is not there.

VENV := .venv
BIN := $(VENV)/bin
# The first Python among these that is 3.10 to 3.13; PYTHON=... chooses another.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python3.10; do \
	$$name -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$name && break; done)
READY := $(VENV)/.ready

.PHONY: demo test lint tests setup results break-even examples tables simulate simulate-machines held remedies scatter independence false-wins live unseen claims search-cost gpu neighbour scaling check-knobs libraries advice planted pruning check-nni check-ipex check-launchers check-machines check-ranks check-report check-sharing check-verify rounding check-versions check-wheel check-long check-trainings picture clean

demo: setup  ## tune the example on real digits, and show the recipe
	@$(BIN)/autoaccel tune examples/digits_cnn.py --budget 5m || [ $$? -eq 1 ]

test: lint tests  ## everything that CI checks

check-long: setup  ## the tests that are too long for every commit; minutes
	$(BIN)/pytest -m long

check-trainings: setup  ## hundreds of random trainings and real ranks, each held against a plain loop; minutes
	$(BIN)/pytest -m 'long or not long' tests/runtime/test_trainings.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

tests: setup  ## two at a time: most wait for processes of their own
	$(BIN)/pytest -n 2 --dist worksteal

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "autoaccel needs Python 3.10 to 3.13: apt install python3 python3-venv"; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "This Python cannot make environments: apt install python3-venv"; exit 2; }
	@command -v "$${CXX:-g++}" >/dev/null 2>&1 || \
		echo "Note: there is no C++ compiler, so torch.compile is not tried. To have it: apt install g++"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

results: setup  ## measure all that the results page needs, in stages; goes on where it was; ARGS=--list shows them
	$(BIN)/python benchmarks/stages.py $(ARGS)

examples: setup  ## tune the four examples, verify and use their recipes; half an hour
	$(BIN)/python benchmarks/examples.py

tables: setup  ## measure every setting of six spaces; three hours in which nothing else should run
	$(BIN)/python benchmarks/tables/measure.py

simulate: setup  ## replay 200 searches on each table, autoaccel's and its peers'; minutes
	$(BIN)/python benchmarks/tables/simulate.py
	$(BIN)/python benchmarks/tables/bounds.py

simulate-machines: setup  ## 200 searches on a model of each machine of tests/machine/recorded; minutes
	$(BIN)/python benchmarks/machines.py

held: setup  ## bounds beside what remedies won, on everything that was recorded; seconds
	$(BIN)/python benchmarks/tables/held.py

remedies: setup  ## bounds by measured rates, and what each remedy wins alone on this machine; an hour
	$(BIN)/python benchmarks/tables/remedies.py
	$(BIN)/python benchmarks/tables/held.py

scatter: setup  ## how much pairs of processes scatter in the recorded tables, and whether intervals hold; a minute
	$(BIN)/python benchmarks/scatter.py

independence: setup  ## whether pairs are independent where the baseline stays alive from pair to pair; twenty minutes; ARGS="--minutes 15"
	$(BIN)/python benchmarks/independence.py $(ARGS)

false-wins: setup  ## the baseline against itself: 2,000 replayed and 100 live comparisons; an hour; ARGS="--minutes 20" ends the live ones in time
	$(BIN)/python benchmarks/false_wins.py replayed
	$(BIN)/python benchmarks/false_wins.py live $(ARGS)

live: setup  ## autoaccel and its peers in the same time on each workload, picks side by side; an hour and a half
	$(BIN)/python benchmarks/live.py

unseen: setup  ## trainings never seen before, beside a hand grid and peers; installs their packages; eleven hours; ARGS="--minutes 40"
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[unseen]'
	$(BIN)/python benchmarks/unseen/measure.py $(ARGS)

claims: setup  ## tune; an hour later the same command measures each claim again
	$(BIN)/python benchmarks/claims.py tune
	$(BIN)/python benchmarks/claims.py verify
	$(BIN)/python benchmarks/claims.py table

search-cost: setup  ## what a run spends its time on
	$(BIN)/python benchmarks/search_cost.py

gpu: setup  ## on a CUDA GPU, ten minutes: the knobs' contract, two tunes, and what a peer finds; exit 2 without one
	$(BIN)/python benchmarks/gpu.py

break-even: setup  ## the same model with 50 and with 50,000 planned steps; half an hour
	$(BIN)/python benchmarks/break_even.py

neighbour: setup  ## tune beside a neighbour that hogs all cores in bursts
	$(BIN)/python benchmarks/neighbour.py

scaling: setup  ## predict a published series of run times with more GPUs; seconds
	$(BIN)/python benchmarks/scaling.py

check-knobs: setup  ## every two knobs in one process; an hour
	$(BIN)/python benchmarks/pairs.py

libraries: setup  ## what OpenMP runtimes and allocators do here; installs them; two hours
	apt-get install -y libjemalloc2 libtcmalloc-minimal4
	$(BIN)/pip install --quiet --disable-pip-version-check '.[intel]'
	$(BIN)/python benchmarks/libraries.py

advice: setup  ## how long advice takes on the examples, and whether its shares add up; minutes
	$(BIN)/python benchmarks/advice.py

planted: setup  ## advice on problems that were planted, and what repairs win; half an hour
	$(BIN)/python benchmarks/planted.py

pruning: setup  ## sparsity against time and accuracy; three quarters of an hour
	$(BIN)/python benchmarks/pruning.py

check-nni: setup  ## prune with NNI in an environment of its own
	$(BIN)/python benchmarks/check_nni.py

check-ipex: setup  ## tune with Intel's extension in an environment of its own; 7 GB
	$(BIN)/python benchmarks/check_ipex.py

check-versions: setup  ## suite, tune and launch with the lowest versions, a middle torch and the newest; 20 GB, two hours
	$(BIN)/python benchmarks/check_versions.py $(ENVIRONMENTS)

check-launchers: setup  ## the same recipe through torchrun, Open MPI and Slurm; installs them; a quarter of an hour
	$(BIN)/python benchmarks/check_launchers.py

check-machines: setup  ## two machines with addresses of their own; a rank is killed; as root, minutes
	$(BIN)/python benchmarks/check_machines.py

check-ranks: setup  ## what ranks leave behind, how they end, whether they pay; an hour
	$(BIN)/python benchmarks/check_ranks.py

check-wheel: setup  ## install the wheel in an environment of its own and tune in a folder with spaces
	rm -rf build/check-wheel && mkdir -p "build/check-wheel/an empty folder"
	$(BIN)/python -m build --wheel --outdir build/check-wheel
	$(PYTHON) -m venv build/check-wheel/venv
	build/check-wheel/venv/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		build/check-wheel/*.whl scikit-learn pillow
	cp examples/digits_cnn.py "build/check-wheel/an empty folder/model.py"
	cd "build/check-wheel/an empty folder" && ../venv/bin/autoaccel tune model.py --budget 4m

check-sharing: setup  ## four workers share a study in PostgreSQL and in a journal, one is killed; minutes
	apt-get install -y postgresql
	$(BIN)/python benchmarks/check_sharing.py

check-verify: setup  ## verify 30 true claims and 30 planted false ones; an hour
	$(BIN)/python benchmarks/verify.py

rounding: setup  ## rounding that is planted in eight trainings: what harms them, and what is said of it; an hour
	$(BIN)/python benchmarks/rounding_cases.py

check-report: setup  ## open reports in a browser: on a desk, on a telephone, light and dark; installs it
	apt-get install -y --no-install-recommends chromium
	$(BIN)/python benchmarks/check_report.py

picture: setup  ## draw docs/terminal.svg from the run that `make examples` left
	@run="$$(ls -dt autoaccel-runs/examples/*/digits_cnn 2>/dev/null | head -n 1)"; \
	test -n "$$run" || { echo "there is no run to draw: make examples"; exit 2; }; \
	$(BIN)/python docs/draw_terminal.py "$$run" docs/terminal.svg

clean:
	rm -rf $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
