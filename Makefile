# Everything here works on a fresh machine with make and Python 3.11 or newer; nothing needs installing by hand.
PYTHON ?= python3
PYTEST_ARGS ?=
FIELD_ARGS ?=

VENV := .venv/bin/python
# Never taken from the caller: they would reach every interpreter below.
unexport PYTHONPATH PYTHONHOME
# Prints the engine's interpreter, or nothing where none can be had; installs it first if need be.
FIND_ENGINE = $(PYTHON) tests/support/environments.py engine

.PHONY: help demo test check bench field conformance dialects operations sweep evaluation docs pages floors dist gpu facts engine dev clean python
.DEFAULT_GOAL := help

help:  ## list these targets
	@sed -n 's/^\([a-z]*\):.*  ## /  make \1\t/p' Makefile

demo: dev  ## convert, check and serve one drafter of each method, and compare them in vLLM
	@engine=$$($(FIND_ENGINE)) && SPECTOOL_TEST_ENGINE=$$engine $(VENV) examples/demo.py

test: dev  ## run all tests; those that ask vLLM too, where it can be installed
	@engine=$$($(FIND_ENGINE)) && SPECTOOL_TEST_ENGINE=$$engine $(VENV) tests/support/all_tests.py $(PYTEST_ARGS)

check: dev  ## lint, formatting and types
	$(VENV) -m ruff check .
	$(VENV) -m ruff format --check .
	$(VENV) -m mypy

bench: dev  ## measure the conversion of a 2 GB drafter
	$(VENV) examples/bench/bench_convert.py

field: dev  ## hold the plans of published drafters against the stored ones; needs the Hub (make field FIELD_ARGS="--only org/name")
	$(VENV) tests/field/field.py $(FIELD_ARGS)

conformance: dev  ## hold spectool's predictions against vLLM over hundreds of mutated pairs
	@engine=$$($(FIND_ENGINE)) && test -n "$$engine" && $(VENV) tests/engine/conformance.py --engine $$engine

floors: python  ## run the tests that need no engine with the oldest release of each dependency
	@oldest=$$($(PYTHON) tests/support/environments.py floors) && \
		$$oldest tests/support/all_tests.py tests/unit tests/cli tests/property -p no:cacheprovider -W "ignore:'click:DeprecationWarning" $(PYTEST_ARGS)

faults: dev  ## let every call to the system fail in every way, and feed spectool hostile files
	SPECTOOL_FAULTS=all $(VENV) tests/support/all_tests.py tests/faults tests/unit/hub/test_faults.py tests/unit/serving/test_remote.py

pages: dev  ## look at every report in a real browser; screenshots in build/pages
	SPECTOOL_PAGES=build/pages $(VENV) -m pytest tests/browser

sweep: dev  ## measure K by load of an example pair in vLLM, and plan with it
	@engine=$$($(FIND_ENGINE)) && test -n "$$engine" && tests/engine/sweep_pair.sh $$engine

evaluation: dev  ## predict published speed-ups without their source; writes the constants and docs/speed.md
	@cd tests && ../$(VENV) -m evaluation $(EVALUATION_ARGS)

docs: dev  ## build the site into build/site
	$(VENV) -m mkdocs build --strict

dist: dev  ## build wheel and sdist, twice, and hold the two against each other; list what spectool needs (SBOM)
	$(VENV) tests/support/release.py

dialects: dev  ## run every layout in vLLM before and after conversion; writes docs/dialects-engine.md
	@engine=$$($(FIND_ENGINE)) && test -n "$$engine" && $(VENV) tests/engine/dialect_table.py --engine $$engine

operations: dev  ## serve with vLLM: planted failures, native against converted, kills, two machines (half an hour)
	@engine=$$($(FIND_ENGINE)) && test -n "$$engine" && \
		SPECTOOL_TEST_ENGINE=$$engine $(VENV) tests/support/all_tests.py tests/engine/operations.py $(PYTEST_ARGS)

gpu: dev  ## compare converted and native drafters on this machine's GPU: make gpu ENGINE=PYTHON
	@test -n "$(ENGINE)" || { echo "say in which Python vLLM is installed: make gpu ENGINE=/path/to/python" >&2; exit 2; }
	$(VENV) tests/gpu/compare.py --engine $(ENGINE)

facts: dev  ## read a vLLM release into spectool/data/vllm: make facts VLLM=0.33.0
	@test -n "$(VLLM)" || { echo "say which release: make facts VLLM=0.33.0" >&2; exit 2; }
	mkdir -p build/wheels
	$(VENV) -m pip download --quiet --no-deps --dest build/wheels vllm==$(VLLM)
	$(VENV) -m spectool.engine.wheel build/wheels/vllm-$(VLLM)-*.whl

engine: python  ## install vLLM for the CPU into .engine, where it can be had
	@$(FIND_ENGINE) > /dev/null

dev: python  ## install spectool and its tools into .venv
	@$(PYTHON) tests/support/environments.py dev

clean:  ## remove both environments and everything built
	rm -rf .venv .engine .floors build dist demo .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "spectool needs Python 3.11 or newer; '$(PYTHON)' is not. Say which to use: make PYTHON=python3.11 ..." >&2; exit 1; }
