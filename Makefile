# Everything here sets itself up on a machine with git, make and Python >= 3.11, and is quick the second time.
#
#   make demo    measure two real networks on every engine, through a real agent
#   make test    all tests but those of boards and of exports, which have targets of their own below
#   make quick   what is checked in a minute while one works: `make check`, and the tests that start nothing
#   make check   formatter, linter, types, import contracts, generated code: what is quick
#   make ui      the pages over what `make demo` measured
#   make screenshots    pictures of every page, for docs/ and for designers: about fifteen minutes
#   make site    the guide, the reference and the evidence as a site, in .site
#   make docs    the pages and schemas that are printed from tables in the code
#   make audit    whether a dependency has a known vulnerability; needs the internet
#   make dist     wheel and source archive into dist/, with what they need (CycloneDX, constraints.txt)
#   make environments    what all tests are run in: beside `make check`, it saves minutes
#   make engines    engines beyond those of `make setup` (LiteRT, ncnn, tract), each in an environment of its own
#   make test-engines    their contract tests and those of providers of ONNX Runtime, in environments of the tests
#   make test-arm    agents on ARM boards that QEMU translates: ten minutes the first time (QUICK=1: what CI runs, half of that)
#   make exports-test    exports read back by the programs they are for: ten minutes, most of them installing those
#   make wheels-check    whether small boards can install the base without compiling: also among `make test`
#   make faults    the tests of the faults of docs/evidence/faults.md
#   make soak    thousands of runs on one agent, and what they leave in it: about 20 minutes
#   make storm    kill commands, agents, children and pages 200 times, and count what is lost; then once more with 50 agents
#                 and a cluster: ten minutes to forty each
#   make fleet    one controller and a thousand agents over mutual TLS, and what they cost it: 20 minutes (QUICK=1: one)
#   make fuzz    more than 100,000 generated inputs to everything that reads what others wrote: ten minutes
#   make benchmarks    the harness against its peers, on an idle machine: about 50 minutes (QUICK=1: three)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROTO_PYTHON := .venvs/proto/bin/python
# Tests start many processes: compiled modules are kept, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE
export ENGINEBENCH_HOME ?= $(CURDIR)/.enginebench
DEEPSPARSE := $(ENGINEBENCH_HOME)/agent/environments/deepsparse
DEEPSPARSE_STAMP := .venvs/deepsparse.stamp
# DeepSparse has no wheels for newer Pythons; where none of these is found it is listed as unavailable.
DEEPSPARSE_PYTHON := $(shell $(PYTHON) -c 'import sys; print(sys.executable if sys.version_info[:2] == (3, 11) else "")')
ifeq ($(DEEPSPARSE_PYTHON),)
DEEPSPARSE_PYTHON := $(shell command -v python3.11 2>/dev/null)
endif
ENGINES := litert ncnn tract
# What the tests also have an environment for, and how each is made, in versions that are known to pass.
TESTED := $(ENGINES) providers
MAKE_litert := --engine litert==2.3.0 --package onnx
MAKE_ncnn := --engine ncnn==1.0.20261020 --package onnx
MAKE_tract := --engine tract==0.23.9
MAKE_providers := --engine onnxruntime==1.32.0 --package onnxruntime-ep-webgpu==0.4.0 \
  --package onnxruntime-ep-openvino==1.8.1 --package onnx
ENGINES_TESTED := .venvs/engines
BENCHMARKS_STAMP := .venvs/benchmarks.stamp
AUDIT := .venvs/audit/bin/pip-audit
SBOM := .venvs/sbom/bin/cyclonedx-py
CONSUMERS := .venvs/exports/bin/otava
TRACKERS := .venvs/trackers/bin/wandb
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
# Where few of the modules are ever imported, and by processes that may write: compiling all of them is most of it.
PIP_INSTALL_LAZILY := $(PIP_INSTALL) --no-compile
# Rooms of tests that start engines, agents or browsers, all of them.
STARTING := arm integration browser plugins
DURATIONS := --durations 30 --durations-min 5
# What fails beside other tests is run once more by itself, as CPython's `regrtest --rerun` does it: a defect fails twice.
# Both times are printed. Where a process of tests died (any other status than 1) there is no second time.
ONCE_MORE := -n 1 --dist loadgroup --last-failed --last-failed-no-failures none
# What `make test-arm` and `make exports-test` run.
ELSEWHERE := --ignore tests/arm --ignore tests/exports
# To collect all tests takes a minute: only these files have tests that nothing else may run beside.
ALONE = $(shell grep --recursive --files-with-matches --include '*.py' 'mark\.alone' tests)

.PHONY: demo test environments test-arm test-engines $(TESTED:%=test-engine-%) quick check ui setup engines format proto released-wire docs audit screenshots browser ssh-server wheels-check benchmarks \
  exports-test site dist soak storm fleet fuzz faults clean

demo: setup
	$(BIN)/enginebench demo

ui: setup
	$(BIN)/enginebench ui

test: setup browser ssh-server $(PROTO_PYTHON)
	$(BIN)/python -m pytest -n 4 --dist loadgroup -m 'not alone' $(ELSEWHERE) $(DURATIONS) || { [ $$? = 1 ] && \
	  echo "once more, by themselves:" && $(BIN)/python -m pytest $(ONCE_MORE) -m 'not alone' $(ELSEWHERE); }
	$(BIN)/python -m pytest -m alone $(ALONE) $(DURATIONS)
ifneq ($(DEEPSPARSE_PYTHON),)
	$(DEEPSPARSE)/venv/bin/python -m pytest tests/plugins/test_deepsparse.py
endif

# Beside each other with `make --jobs 2`: their environments have nothing in common.
test-engines: $(TESTED:%=test-engine-%)

$(TESTED:%=test-engine-%): test-engine-%: browser $(ENGINES_TESTED)/%.stamp
	$(ENGINES_TESTED)/environments/$*/venv/bin/python -m pytest tests/plugins/test_$*.py

# What cannot be downloaded ends it with the words of pip, behind the name of the engine.
$(ENGINES_TESTED)/%.stamp: $(VENV)/.stamp
	mkdir -p $(@D)
	$(BIN)/enginebench-agent environment remove $* --data-dir $(ENGINES_TESTED) 2>/dev/null || true
	$(BIN)/enginebench-agent environment add $* $(MAKE_$*) --data-dir $(ENGINES_TESTED)
	PIP_PYTHON=$(ENGINES_TESTED)/environments/$*/venv/bin/python $(BIN)/python $(PIP_INSTALL) pytest pytest-asyncio pytest-timeout
	touch $@

quick: check
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m 'not slow and not alone' $(addprefix --ignore tests/,proto $(STARTING))

check: $(VENV)/.stamp $(PROTO_PYTHON)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/proto

format: $(VENV)/.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: $(PROTO_PYTHON)
	proto/generate.sh $(CURDIR)/$(PROTO_PYTHON)

# At a release: what the wire is now is what later versions have to keep.
released-wire: $(VENV)/.stamp
	$(BIN)/python tests/proto/wire_listing.py > proto/released/wire.txt

# --strict: a version for which the database has no answer fails, and is not passed over.
audit: $(AUDIT)
	@$(AUDIT) --strict --disable-pip --no-deps --progress-spinner off --requirement constraints.txt || { echo \
	  "a version has a known vulnerability, or the database has no answer: the lines above say which" >&2; exit 1; }

$(AUDIT):
	$(PYTHON) -m venv .venvs/audit
	.venvs/audit/bin/python $(PIP_INSTALL_LAZILY) pip-audit
	touch $@

# A link that leads nowhere, or a page that no list names, ends it.
site: .venvs/site/bin/sphinx-build
	$< --fail-on-warning --keep-going --builder html docs .site

.venvs/site/bin/sphinx-build:
	$(PYTHON) -m venv .venvs/site
	.venvs/site/bin/python $(PIP_INSTALL_LAZILY) sphinx==9.0.4 myst-parser==5.2.0 furo==2025.12.19
	touch $@

docs: $(VENV)/.stamp
	$(BIN)/python tests/faults.py
	$(BIN)/python docs/reference/errors.py > docs/reference/errors.md
	$(BIN)/python -m enginebench_controller.store.tables > docs/reference/tables.md
	$(BIN)/python -m enginebench_controller.files.schemas docs/reference/schemas

setup: $(VENV)/.stamp $(DEEPSPARSE_STAMP)

# What all tests together are run in: made beside the checks, most of it is waiting.
environments: setup ssh-server $(PROTO_PYTHON) $(TESTED:%=$(ENGINES_TESTED)/%.stamp) $(CONSUMERS) $(TRACKERS) \
  .venvs/site/bin/sphinx-build

engines: setup
	for one in $(ENGINES); do \
	  $(BIN)/enginebench-agent environment add $$one --engine $$one --data-dir $(ENGINEBENCH_HOME)/agent || exit 1; done
	@echo "measure on all of them: ENGINEBENCH_HOME=$(ENGINEBENCH_HOME) $(BIN)/enginebench run zoo:squeezenet --engine all"

$(VENV)/.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m compileall -q agent controller plugins proto ui  # an engine's process may write nothing here
	touch $@

$(DEEPSPARSE_STAMP): $(VENV)/.stamp
	mkdir -p $(@D)
ifneq ($(DEEPSPARSE_PYTHON),)
	$(BIN)/enginebench-agent environment remove deepsparse --data-dir $(ENGINEBENCH_HOME)/agent 2>/dev/null || true
	$(BIN)/enginebench-agent environment add deepsparse --engine deepsparse --python $(DEEPSPARSE_PYTHON) \
	  --data-dir $(ENGINEBENCH_HOME)/agent
	PIP_PYTHON=$(DEEPSPARSE)/venv/bin/python $(BIN)/python $(PIP_INSTALL) pytest pytest-asyncio pytest-timeout
else
	@echo "DeepSparse is left out: it needs Python 3.11, and none was found" >&2
endif
	touch $@

$(PROTO_PYTHON):
	$(PYTHON) -m venv .venvs/proto
	$@ $(PIP_INSTALL_LAZILY) grpcio-tools==1.72.2
	touch $@

# Every view of the pages over real runs, light and dark, wide and narrow, into $(SHOTS); some of them into docs/.
SHOTS := .screenshots
screenshots: setup browser
	test -e $(SHOTS)/home/filled || { rm -rf $(SHOTS)/home; mkdir -p $(SHOTS)/home; \
	  PYTHONPATH=tests $(BIN)/python tests/browser/real_runs.py $(SHOTS)/home --thorough && touch $(SHOTS)/home/filled; }
	ENGINEBENCH_PAGES_HOME=$(SHOTS)/home ENGINEBENCH_SCREENSHOTS=$(SHOTS) \
	  $(BIN)/python -m pytest tests/browser/test_desk.py
	$(BIN)/python tests/browser/pictures.py $(SHOTS) docs/images

faults: setup browser
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m fault

fleet: setup
	$(BIN)/python -m benchmarks.fleet $(if $(QUICK),--quick)

storm: setup
	$(BIN)/python -m benchmarks.storm
	$(BIN)/python -m benchmarks.storm --agents 50 --workers 2

benchmarks: setup $(BENCHMARKS_STAMP)
	$(BIN)/python -m benchmarks $(if $(QUICK),--quick)

soak: setup
	$(BIN)/python -m benchmarks.soak $(if $(QUICK),--quick --runs 200 --aborted 20)

fuzz: setup
	$(BIN)/python -m benchmarks.fuzzing

$(BENCHMARKS_STAMP): $(VENV)/.stamp
	mkdir -p $(@D)
	$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --editable '.[benchmarks]'
	touch $@

browser: $(VENV)/.stamp
	@tests/browser/install.sh $(BIN)/playwright

ssh-server:
	@tests/integration/install.sh

test-arm: $(VENV)/.stamp ssh-server
	@tests/arm/install.sh
	$(BIN)/python -m pytest tests/arm $(if $(QUICK),-m 'not slow',) $(DURATIONS)

exports-test: $(VENV)/.stamp $(CONSUMERS) $(TRACKERS)
	$(BIN)/python -m pytest tests/exports

# They pin versions of what enginebench needs, too: an environment of their own.
$(CONSUMERS):
	$(PYTHON) -m venv .venvs/exports
	.venvs/exports/bin/python $(PIP_INSTALL_LAZILY) apache-otava==0.8.0 ai-edge-model-explorer==0.1.34 model-explorer-onnx==0.4.2
	touch $@

# With enginebench beside them, as users have them: the extras, and the whole MLflow, whose store is a file.
$(TRACKERS): pyproject.toml
	$(PYTHON) -m venv .venvs/trackers
	.venvs/trackers/bin/python $(PIP_INSTALL_LAZILY) --editable '.[controller,mlflow,otlp,wandb]' \
	  mlflow==3.17.2 opentelemetry-proto==1.45.2 wandb==0.31.0
	touch $@

# The same commit makes the same bytes: what is dated is dated as the commit.
dist: $(VENV)/.stamp $(SBOM)
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build --directory dist
	cp constraints.txt dist
	sed "s/^dynamic = .*/version = \"$$($(BIN)/enginebench --version)\"/" pyproject.toml > .venvs/sbom/pyproject.toml
	$(SBOM) environment $(BIN)/python --pyproject .venvs/sbom/pyproject.toml --output-reproducible \
	  --output-format JSON --output-file .venvs/sbom/environment.json
	$(BIN)/python deploy/sbom.py .venvs/sbom/environment.json > dist/sbom.cdx.json

# It would bring what is not ours into the environment that is listed.
$(SBOM):
	$(PYTHON) -m venv .venvs/sbom
	.venvs/sbom/bin/python $(PIP_INSTALL) cyclonedx-bom
	touch $@

wheels-check: $(VENV)/.stamp
	$(BIN)/python -m pytest -v tests/test_wheels.py

clean:
	rm -rf $(VENV) .venvs
