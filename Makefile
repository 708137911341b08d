# Every verb sets itself up: a bare machine needs python3 (3.11 or newer), make and Go 1.26.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
PY := $(VENV)/bin/python
JOBS ?= 2
PIN := $(PY) -m piptools compile --quiet --strip-extras --generate-hashes --allow-unsafe --no-emit-index-url \
	--no-emit-find-links --no-emit-trusted-host --no-emit-options
PURE := $(addprefix tests/unit/,admission detection generation objects patch rules status) tests/property \
	$(wildcard $(addprefix tests/unit/,test_review.py test_rounds.py test_awaited_intent.py))
# Beside the core: what a recipe of CONTRIBUTING.md can break. None of these needs a program that must be built.
QUICK := tests/unit tests/architecture tests/scenarios/test_recorded.py --ignore=tests/architecture/test_recipes.py \
	$(patsubst %,tests/supply/test_%.py,chart_files locks published) \
	$(patsubst %,tests/readme/test_%.py,claims coverage schemas) tests/readme/test_readme.py::test_no_documented_command_is_left_out \
	$(patsubst %,tests/monitoring/test_%.py,declared runbooks)
KIND_TEST := $(PY) -m pytest --timeout=1800

.PHONY: help shipped install run demo demo-picture first-hour dashboard-picture quick quick-tests test compiled test-all kind-test check controlplane detect-diff bench soak coverage coverage-rows fuzz faults next-kubernetes wheel chart manual krew sbom release audit docs clean clean-all lock

help: ## what people do here
	@awk 'BEGIN{FS=":.*## "} /^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What is shipped comes first. The developers' tools are added to it: their lock pins the same versions.
$(VENV)/.shipped: requirements.lock
	@echo "1/2  make $(VENV), an environment of Python's own"
	@python3 -m venv $(VENV) || { echo "python3 cannot make a venv: install python3-venv" >&2; exit 1; }
	@echo "2/2  install the $$(grep -c '==' $<) packages of $<"
	@$(PY) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --require-hashes -r $<
	@echo "     $$(du -sh $(VENV) | cut -f1) on disk in $(VENV); 'make clean' removes them"
	@touch $@

$(VENV)/.installed: $(VENV)/.shipped requirements-dev.lock pyproject.toml
	@echo "install the developers' packages: $$(grep -c '==' requirements-dev.lock) with those that are shipped"
	@$(PY) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --require-hashes -r requirements-dev.lock
	@PYTHONWARNINGS=ignore $(PY) -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --no-build-isolation -e .
	@echo "$$(du -sh $(VENV) | cut -f1) on disk in $(VENV)"
	@touch $@

shipped: $(VENV)/.shipped ## make .venv with what genguard needs to serve, and no more

install: $(VENV)/.installed ## the same, with genguard's commands and the developers' tools

run: shipped ## serve on https://localhost:8443, enforcing, with a certificate of its own
	@echo "serve reviews on https://localhost:8443, enforcing, and the dashboard on http://localhost:8080"
	@echo "the certificate is in .certs; ^C ends it, and 'make clean' removes .certs and $(VENV) ($$(du -sh $(VENV) | cut -f1))"
	@$(PY) -m webhook serve --cert-dir .certs

quick: install ## lint, types, unit tests, recorded scenarios, documents and chart files; it builds nothing
	@$(MAKE) --no-print-directory -j2 --output-sync=target check quick-tests

quick-tests: install
	@$(PY) -m pytest -q -n $(JOBS) -m 'not slow' --hypothesis-profile=quick $(QUICK)

check: install ## ruff, mypy strict, import-linter: fast enough for every save
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache

demo: shipped ## a hanging rollout, who makes it hang, and its end, on a real control plane
	@$(PY) -m tools.demo

demo-picture: install ## draw README's picture of the demo again
	$(PY) -m tools.demo.picture

first-hour: install ## do what docs/first-hour.md says, and write its times there
	GENGUARD_FIRST_HOUR=docs/first-hour.md $(PY) -m pytest -q tests/dashboard/test_first_hour.py

dashboard-picture: install ## photograph the dashboard again, for README
	$(PY) -m tools.dashboard_picture

controlplane: install ## build kube-apiserver of three minors, etcd and friends once (minutes; cached)
	$(PY) -m tests.controlplane.build
	$(PY) -m tests.monitoring.binaries
	$(PY) -m tests.store.binaries
	$(PY) -m tests.dashboard.binaries
	$(PY) -m tests.supply.sandbox
	$(PY) -m tools.binaries
	$(PY) -m tools.krew
	$(PY) -m tests.faults.faketime

# Tests of real servers mostly wait, so there are two workers for each of the JOBS. tests/conftest.py orders the files.
PYTEST := $(PY) -m pytest -n $$((2 * $(JOBS))) --no-loadscope-reorder
# Without compiled modules each of some thousand processes would compile its own.
unexport PYTHONDONTWRITEBYTECODE
test: install ## every promise, on a real control plane; what waits for test-all is in tests/README.md
	@$(MAKE) --no-print-directory -j2 --output-sync=target check compiled
	$(PY) -m tests.controlplane.build --own
	$(PY) -m tests.monitoring.binaries
	$(PY) -m tests.store.binaries
	$(PYTEST) -m 'not nightly' --hypothesis-profile=day

compiled: install # the tests, once for all workers; if something is wrong with them, the run says it
	@$(PY) -m pytest -q --collect-only >/dev/null 2>&1 || true

test-again: install ## what failed in the last run, with nothing beside it
	$(PY) -m pytest -m 'not nightly' --last-failed --last-failed-no-failures none

test-all: check controlplane ## every test but those in kind: each night, and before a release (an hour)
	$(PYTEST)

kind-test: install ## what users do in a real kind cluster, with figures: FULL=1 is the whole form (hours)
	@rm -f build/kind/RESULTS.md
	@failed=0; \
	$(KIND_TEST) tests/kind/core $(if $(FULL),tests/kind/whole) || failed=1; \
	$(if $(FULL),$(KIND_TEST) tests/kind/ha || failed=1;) \
	exit $$failed

coverage: install ## fail unless the core's own tests take each of its branches
	mkdir -p build
	$(PY) -m coverage run -m pytest -q $(PURE)
	$(PY) -m coverage report

coverage-rows: install ## does the test of each row of tests/coverage.md fail without what the row says: LIVE=1 the others, ROWS=14,84
	$(PY) -m tools.coverage_rows $(if $(LIVE),--live) $(if $(ROWS),--rows $(ROWS))

fuzz: install ## coverage-guided, on what reads what others wrote: TIME=3600 seconds each
	$(PY) -m tools.fuzz --seconds $(or $(TIME),3600)

faults: install controlplane ## what users see of faults, with 10,000 writes while end (minutes): WRITES=
	GENGUARD_FAULTS_WRITES=$(or $(WRITES),10000) $(PY) -m pytest -s tests/faults

detect-diff: install ## what detection finds otherwise than before, in all recordings and cases (two minutes): WRITE=1 keeps it
	$(PY) -m tools.detect_diff $(if $(WRITE),--write)

bench: install controlplane ## genguard beside aiohttp and Go: writes tools/bench/RESULTS.md
	$(PY) -m tools.bench

soak: install controlplane ## load and trouble, and whether anything grows by it: TIME=60 minutes
	$(PY) -m tools.soak --minutes $(or $(TIME),60)

next-kubernetes: install ## what a release has that the table of kinds has not: VERSION=1.38.0, WRITE=1 writes it
	$(PY) -m tools.versions.next $(VERSION) $(if $(WRITE),--write)

wheel: install ## the wheel in dist/, the same bytes wherever this commit is built
	$(PY) -m tools.wheel

chart: install ## write charts/genguard, manifests/rendered.json and the tables of documents, out of manifests/, flags and metrics
	$(PY) -m tools.kustomize
	$(PY) -m tools.tables
	$(PY) -m tools.chart

manual: install ## pages for man and the JSON schemas of outputs, packed in dist/
	$(PY) -m tools.manual

krew: install ## the krew archive of this platform in dist/
	$(PY) -m tools.krew archive dist

sbom: install ## what it is made of, as CycloneDX, in dist/; IMAGE=genguard:local: that image as well
	$(PY) -m tools.sbom
	$(if $(IMAGE),$(PY) -m tools.image_sbom $(IMAGE))

release: install ## all that a release has, in dist/, and each file tried: VERSION=0.2.0, REPOSITORY=owner/name
	$(PY) -m tools.release $(VERSION) $(if $(REPOSITORY),--repository=$(REPOSITORY)) \
		$(if $(ARCHIVES),--archives=$(ARCHIVES)) $(if $(PUSH),--push)

audit: install ## ask the Python advisory list whether what is shipped has known holes (network)
	$(VENV)/bin/pip-audit --strict --disable-pip --require-hashes -r requirements.lock

docs: ## the documents as a site, in build/site: it needs no internet, and no link is broken
	@python3 -m tools.site

lock: ## pin the dependencies again, with hashes (needs pip-tools in .venv)
	$(PIN) --extra uvloop --extra otel -o requirements.lock pyproject.toml
	$(PIN) --extra dev --extra uvloop --extra otel -c requirements.lock -o requirements-dev.lock pyproject.toml
	$(PIN) -o requirements-krew.lock requirements-krew.in
	$(PY) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["docs"], sep="\n")' \
		| $(PIN) -o requirements-docs.lock -

clean-all: clean ## the same as clean, and the programs that they built into ~/.cache/genguard
	@chmod -R u+w "$${XDG_CACHE_HOME:-$$HOME/.cache}/genguard" 2>/dev/null || true
	rm -rf "$${XDG_CACHE_HOME:-$$HOME/.cache}/genguard"

clean: ## remove what the verbs above made in this folder
	rm -rf $(VENV) .certs build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
