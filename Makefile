# Two commands for everybody: `make demo` and `make test`. Both first make .venv if it is not there.

VENV := .venv
BIN := $(VENV)/bin
# The first Python among these that is 3.10 to 3.13; PYTHON=... chooses another.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python3.10; do \
	$$name -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && echo $$name && break; done)
READY := $(VENV)/.ready

.PHONY: demo test check-long audit lint tests setup results benchmark fuzz picture clean

demo: setup  ## tune an example whose steps wait for data, and show the recipe
	@$(BIN)/autoaccel tune examples/image_pipeline.py --budget 5m || [ $$? -eq 1 ]

# Side by side: what is linted computes on one core alone.
test: setup  ## everything that CI checks
	@$(MAKE) --no-print-directory --jobs=2 lint tests

check-long: setup  ## the tests that are too long for every commit; an hour and a half
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,scripts]'
	$(BIN)/pytest -n 2 --dist worksteal -m long

# In an environment of its own: what the check itself needs is no part of what it looks at. It asks OSV, as PyPI does not
# know torch's builds for CPUs, and fails where that cannot be reached: what was not looked up is not known to be safe.
audit: setup  ## ask api.osv.dev which installed packages have known vulnerabilities; needs the network
	test -x .audit/bin/pip-audit || { $(PYTHON) -m venv .audit && \
		.audit/bin/pip install --quiet --disable-pip-version-check 'pip-audit>=2.7'; }
	site="$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"; \
	.audit/bin/pip-audit --strict --skip-editable --vulnerability-service osv --progress-spinner off --path "$$site" || \
		{ echo "audit: known vulnerabilities, or api.osv.dev could not be asked; see above"; exit 1; }

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Threads that wait for one another give their core away at once: those of other tests need it. Three trainings side by
# side on two cores spent a third of their processor time on spinning.
tests check-long: export GOMP_SPINCOUNT ?= 0
tests: setup  ## three at a time: most wait for processes of their own
	$(BIN)/pytest -n 3 --dist worksteal

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

results: setup  ## measure all that the results page needs; resumes; ARGS=--list, ARGS="--minutes 60"
	$(BIN)/python -m benchmarks.run $(ARGS)

benchmark: setup  ## run a check or study: NAME=unseen ARGS="--half first"; without a name, list them
	$(BIN)/python -m benchmarks.run $(if $(NAME),$(NAME) $(if $(ARGS),-- $(ARGS)),--list)

fuzz: setup  ## look for bytes that no reader refuses in a sentence: SECONDS=3600
	$(BIN)/pip install --quiet --disable-pip-version-check 'atheris==3.0.0'
	$(BIN)/python -m tools.fuzz all $(or $(SECONDS),600) .fuzz

picture: setup  ## draw docs/terminal.svg from the run that the study `examples` left
	@run="$$(ls -dt autoaccel-runs/examples/*/digits_cnn 2>/dev/null | head -n 1)"; \
	test -n "$$run" || { echo "there is no run to draw: make benchmark NAME=examples"; exit 2; }; \
	$(BIN)/python tools/draw_terminal.py "$$run" docs/terminal.svg

clean:
	rm -rf $(VENV) .audit .fuzz dist build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
