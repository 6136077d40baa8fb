# make demo        measure a training step of the MNIST experiment, end to end
# make test        the tests but the slow ones
# make test-all    the whole test suite
# make test-xla    the suite that needs torch_xla 2.9.0 (CPython 3.11, up to 7.5 GB of disk)
# make test-tracy  the suite that needs the real tracy package (CPython 3.12 or 3.10, 1 GB)
# make test-ttl    the suite that needs tt-lang's simulator (CPython 3.11 or newer, 1 GB)
# make test-ttsim  the suite on ttnn and a simulated Wormhole (see docs/contributing.md)
# make bench       the benchmarks: ratios, measured in one run
# make ablate      what each ability of reading changes in CORPUS, a folder or a list of scripts
# make lint        ruff, mypy --strict, and who may import whom
# make clean       remove what these made, the environments included
#
# PYTHON=...       interpreter for .venv (default: the first of 3.11, 3.12, 3.10, 3.13 found)
# TORCH=...        the torch to test with
# PIP_ARGS=...     options for pip; for a CPU build of torch:
#                  PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu"
# TESTS=...        what pytest runs (default: all)

PYTHON ?= $(shell .ci/find-python 3.11 3.12 3.10 3.13)
PYTHON_XLA ?= $(shell .ci/find-python 3.11)
PYTHON_TTL ?= $(shell .ci/find-python 3.11 3.12 3.13)
PYTHON_TTNN ?= $(shell .ci/find-python 3.12 3.10)
PYTHON_TTSIM ?= $(shell .ci/find-python 3.12)
TORCH ?= torch==2.13.0
PIP_ARGS ?=
TESTS ?=
WORKERS ?= 2

VENV_OPTIONS = --torch '$(TORCH)' --pip-args '$(PIP_ARGS)'
PYTEST = .venv/bin/python -m pytest
# Whoever is done takes over tests of the others.
SPREAD = -n $(WORKERS) --dist worksteal

.PHONY: help venv venv-xla venv-ttl venv-ttnn venv-ttsim demo test test-all test-xla test-ttl test-tracy test-ttsim bench ablate lint clean

help:
	@sed -n 's/^# \{0,1\}//p;/^$$/q' Makefile

venv:
	@test -n '$(PYTHON)'
	@'$(PYTHON)' .ci/make_venv.py tool $(VENV_OPTIONS)

venv-xla:
	@test -n '$(PYTHON_XLA)'
	@'$(PYTHON_XLA)' .ci/make_venv.py xla $(VENV_OPTIONS)

venv-ttl:
	@test -n '$(PYTHON_TTL)'
	@'$(PYTHON_TTL)' .ci/make_venv.py ttl $(VENV_OPTIONS)

venv-ttnn:
	@test -n '$(PYTHON_TTNN)'
	@'$(PYTHON_TTNN)' .ci/make_venv.py ttnn $(VENV_OPTIONS)

venv-ttsim:
	@test -n '$(PYTHON_TTSIM)'
	@'$(PYTHON_TTSIM)' .ci/make_ttsim.py --wheels '$(WHEELS)' --sfpi '$(SFPI)' --ttsim '$(TTSIM)'

demo: venv
	@.ci/demo

test: venv
	$(PYTEST) $(SPREAD) -m 'not slow' -rsfE $(TESTS)

test-all: venv
	$(PYTEST) $(SPREAD) -rsfE $(TESTS)

# These measure time on the device: nothing else may run beside them.
test-xla: venv venv-xla
	INSTRUMENT_TEST_XLA_PYTHON='$(CURDIR)/.venv-xla/bin/python' $(PYTEST) -m xla -rsPfE $(TESTS)

test-ttl: venv venv-ttl
	INSTRUMENT_TEST_TTL_PYTHON='$(CURDIR)/.venv-ttl/bin/python' $(PYTEST) $(SPREAD) -m ttl -rsfE $(TESTS)

test-tracy: venv venv-ttnn
	INSTRUMENT_TEST_TTNN_PYTHON='$(CURDIR)/.venv-ttnn/bin/python' $(PYTEST) -m ttnn -rsfE $(TESTS)

# Beside it another run would only be slow: every process has a simulator of its own.
test-ttsim: venv venv-ttsim
	INSTRUMENT_TEST_TTSIM_PYTHON='$(CURDIR)/.venv-ttsim/bin/python' \
	INSTRUMENT_TEST_TTSIM='$(CURDIR)/.venv-ttsim/simulator/libttsim_wh.so' \
	TT_METAL_CACHE='$(CURDIR)/.venv-ttsim/kernels' $(PYTEST) -m ttsim -rsfE $(TESTS)

bench: venv
	.venv/bin/python tests/benchmarks/bench_cli.py
	.venv/bin/python tests/benchmarks/bench_analysis.py

ablate: venv
	@test -n '$(CORPUS)' || { echo 'make ablate CORPUS=FOLDER'; exit 2; }
	.venv/bin/python -m tests.ablation '$(CORPUS)'

lint: venv
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

clean:
	rm -rf .venv .venv-xla .venv-ttl .venv-ttnn .venv-ttsim build dist *.egg-info
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find fixtures/experiments -name checkpoints -type d -prune -exec rm -rf {} +
