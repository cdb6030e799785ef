# Every target makes the environment it needs, with pip, from this checkout alone.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: install demo test test-slow lint format benchmarks chaos fuzz clean

install: $(READY)

demo: $(READY)
	$(BIN)/ncgnn generate --nodes 3000 --edges 12000 --classes 5 --homophily 0.9 \
		--confused-share 0.3 --confused-homophily 0.1 --features 32 --feature-signal 2 \
		--out demo-results/mixed.npz --force
	$(BIN)/ncgnn analyze demo-results/mixed.npz --out demo-results/mixed
	$(BIN)/ncgnn train demo-results/mixed.npz --model ncgcn,gcn,mlp \
		--set hidden=64 --runs demo-results/runs
	$(BIN)/ncgnn train digits --model ncgcn,gcn,mlp \
		--set hidden=64 --set scaling=row --set epochs=200 --runs demo-results/runs
	@echo "Reports with pictures: demo-results/mixed/report.html and demo-results/runs/*/report.html"

test: $(READY)
	$(BIN)/python -m pytest -n 2

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

benchmarks: $(READY)
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/sampling.py
	$(BIN)/python benchmarks/sparse.py
	$(BIN)/python benchmarks/dropout.py
	$(BIN)/python benchmarks/features.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/sweeps.py

chaos: $(READY)
	$(BIN)/python -W ignore campaigns/faults.py
	$(BIN)/python -W ignore campaigns/kills.py

fuzz: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt atheris
	$(BIN)/python -W ignore campaigns/fuzz.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: Python 3.11 or newer is needed; pass PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Setting up $(VENV); the first time this takes a few minutes."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

clean:
	rm -rf $(VENV) demo-results
