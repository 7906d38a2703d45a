# make demo   train five methods on real digits, print a table, write demo.html
# make test   run the tests, on every core
# make lint   ruff and mypy
# make tables write the tables of README.md and docs/ anew, from results/ and the registry
# make evidence  compare the figures of `pulab fit` with the truth on real tables (an hour), write docs/evidence.md
# make torture  kill writers and trainings, mutate model files, fit a thousand times, try bad inputs and the lowest versions (hours); counts: docs/reliability.md
# make docs   build the site: build/docs/index.html
#
# Each makes .venv and installs into it, once; nothing else on the machine is touched.

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	--constraint constraints.txt

.DELETE_ON_ERROR:
.PHONY: demo test lint tables evidence torture docs clean

demo: .venv/.demo
	$(BIN)/pulab demo

test: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

tables: .venv/.dev
	$(BIN)/python docs/render.py

evidence: .venv/.evidence
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/evidence.py run
	$(BIN)/python benchmarks/evidence.py page

torture: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/torture/rows.py 1000
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/torture/models.py 100000
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/torture/models.py --kills 1000
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/torture/memory.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/torture/checkpoints.py 1000
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/torture/soak.py 1000
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/torture/inputs.py 10000
	PULAB_LONG=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/cluster/test_train.py
	$(BIN)/python benchmarks/torture/lowest.py build/lowest
	$(BIN)/python docs/render.py

# The pages of the API and of notebooks are made anew each time, so that none outlives its source.
docs: .venv/.docs
	rm -rf docs/api docs/notebooks
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -d build/doctrees docs build/docs

clean:
	rm -rf .venv build docs/api docs/notebooks demo.html

# A stamp for what is installed, so that a second call costs nothing. Editable: changed source needs no reinstall.
.venv/.demo: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pulab needs Python 3.11 or later, got " + sys.version.split()[0] + ". Run: make PYTHON=python3.11 …")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --upgrade pip
	$(INSTALL) --build-constraint constraints.txt --editable .
	@touch $@

.venv/.dev: .venv/.demo
	$(INSTALL) --group test --group lint
	@touch $@

.venv/.evidence: .venv/.dev
	$(INSTALL) --group evidence
	@touch $@

.venv/.docs: .venv/.dev
	$(INSTALL) --group docs
	@touch $@
