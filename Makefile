# One verb a target. `make test` and `make demo` start from a bare clone; both may be run again.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup stores emulators build wheel install test test-slow test-frameworks test-suites demo lint unit race asan fuzz hostile arm64 baseline \
  libjpeg kernels pytest check bench bench-all bench-peers bench-gpu soak stress docs \
  coverage release clean distclean

# tools/env.sh finds the tools and puts caches into the project where HOME cannot hold them.
ENV := . tools/env.sh &&
# Not PYTHON: make would hand this value to tools/setup.sh in place of the user's.
VENV_PYTHON := .venv/bin/python
TEST_PYTHON := .build/venv/bin/python
IMAGES ?=
TESTS ?= tests
SOURCE ?=
FUZZ_SECONDS ?= 60
HOSTILE_SECONDS ?= 30
REPETITIONS ?= 100
PYTEST_ARGS ?=
# Whole-system tests wait much, for processes and for time to pass: two at once take half the time
# on two cores. More would disturb those that look at the clock.
PYTEST_PROCESSES ?= 2
# A file that takes long does not keep one process alone at the end: the other takes tests from it.
PYTEST_OPTIONS := --ignore tests/frameworks --timeout 300 -o faulthandler_timeout=240 --maxfail 20 \
  --durations 10 -n $(PYTEST_PROCESSES) --dist worksteal
BENCH_ARGS ?=
# Every benchmark and the demo take IMAGES=DIR, an image folder; else the demo's photographs.
PHOTOGRAPHS := $(or $(IMAGES),.build/demo/photographs)

help: ## show this list
	@sed -n 's/^\([a-zA-Z0-9_-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

setup: ## install what is missing: compiler and headers (apt-get), .venv, Go, linters
	@tools/setup.sh

build: setup ## compile the Go packages and the shared library .build/libheadrace.so
	$(ENV) go build ./... && go build -buildmode=c-shared -o .build/libheadrace.so ./capi

wheel: setup ## build dist/headrace-*.whl and tag it with auditwheel
	$(ENV) tools/wheel.sh

install: wheel ## install the wheel into the clean environment .build/venv
	$(ENV) tools/install.sh

lint: setup ## gofmt, go vet, staticcheck, ruff, mypy --strict, clang-format
	$(ENV) tools/lint.sh

stores: setup ## build the S3 server that tests run
	@tools/versitygw.sh

emulators: setup ## servers of Google's and Azure's protocols, for their tests
	@tools/emulators.sh

unit: stores ## Go tests, which run the C programs of native/ctest, too
	$(ENV) go test -count 1 ./...

race: stores ## Go tests under the race detector, without the C programs and with less of what repeats
	$(ENV) CGO_ENABLED=1 go test -race -short -count 1 ./...

asan: setup ## the C code under address and undefined-behaviour sanitizers
	$(ENV) tools/asan.sh

fuzz: setup ## every Go fuzz target for FUZZ_SECONDS (60) each, and 2 million runs of the decoder
	$(ENV) tools/fuzz.sh $(FUZZ_SECONDS)

hostile: setup ## four times as much of asan, threads over the decoder under the thread sanitizer, and calls of the C ABI in any order for HOSTILE_SECONDS (30)
	$(ENV) tools/hostile.sh $(HOSTILE_SECONDS)

arm64: setup ## the code built for arm64, its unit tests under qemu-user
	$(ENV) tools/arm64.sh

baseline: setup ## that no instruction beyond every x86-64's is needed, under qemu-user
	$(ENV) tools/baseline.sh

libjpeg: setup ## the tests that depend on libjpeg with another libjpeg-turbo (SOURCE=DIR, its source tree)
	$(ENV) tools/libjpeg.sh "$(SOURCE)"

kernels: install ## the tests that compare with torch, with torch's kernels for other CPUs, Intel's among them
	$(ENV) tools/kernels.sh

pytest: install stores ## the whole-system tests against the installed wheel, without those marked slow
	$(ENV) $(TEST_PYTHON) -m pytest $(TESTS) $(PYTEST_OPTIONS) -m "not slow" $(PYTEST_ARGS)

check: lint unit ## the quick ones: linters and Go tests

test: ## before every push: linters, Go and C tests, wheel, whole-system tests
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory pytest

test-slow: race install stores ## what `make test` leaves out: the race detector, whole-system tests marked slow, all random cases instead of a sample
	$(ENV) HEADRACE_CASES=all $(TEST_PYTHON) -m pytest $(TESTS) $(PYTEST_OPTIONS) -m "slow or some_cases" $(PYTEST_ARGS)

test-frameworks: install ## trains with PyTorch, timm, Lightning, Accelerate, Transformers, torchdata, JAX, TensorFlow; programs' datasets with older Pillows, too, and with every recorded image made at once
	$(ENV) tools/frameworks.sh
	$(ENV) tools/pillows.sh
	$(ENV) HEADRACE_AT_ONCE=1 $(TEST_PYTHON) -m pytest tests/deferred --timeout 300 -q \
	  -n $(PYTEST_PROCESSES) --dist loadfile $(PYTEST_ARGS)

test-suites: install ## other projects' tests of loaders, with Headrace's (SOURCE=DIR, their repositories: tools/suites.py)
	$(ENV) tools/suites.sh "$(SOURCE)"

stress: install ## every way to fork, spawn, be signalled, be killed and end, REPETITIONS (100) times each
	$(ENV) HEADRACE_REPETITIONS=$(REPETITIONS) $(TEST_PYTHON) -m pytest tests/faults/test_forks.py \
	  tests/faults/test_endings.py tests/faults/test_signals.py tests/remote/test_cache.py \
	  tests/remote/test_killed_ranks.py --timeout 3600 -n $(PYTEST_PROCESSES) --dist worksteal $(PYTEST_ARGS)
	$(ENV) HEADRACE_REPETITIONS=$(REPETITIONS) go test -count 1 -run Killed ./internal/pack

demo: install ## pack photographs, iterate them, compare pixels with torchvision, save a picture of a batch
	$(ENV) if [ -z "$(IMAGES)" ]; then $(VENV_PYTHON) tools/demo_photographs.py .build/demo/photographs; fi
	$(ENV) $(TEST_PYTHON) examples/demo.py "$(PHOTOGRAPHS)" --work .build/demo

bench: install ## the headline table of rates (IMAGES=DIR, BENCH_ARGS="--rounds 5"); bench-peers first
	$(ENV) if [ -z "$(IMAGES)" ]; then $(VENV_PYTHON) tools/demo_photographs.py .build/demo/photographs; fi
	$(ENV) $(TEST_PYTHON) bench/compare.py "$(PHOTOGRAPHS)" --json .build/bench/compare.json $(BENCH_ARGS)
	$(ENV) if [ -x .build/peers/chart/bin/python ]; then \
	  .build/peers/chart/bin/python bench/chart.py .build/bench/compare.json .build/bench; fi

bench-all: bench-peers ## every table, the sweep, packing and the stages: half an hour
	@$(MAKE) --no-print-directory bench BENCH_ARGS="--all $(BENCH_ARGS)"

bench-peers: setup ## the environments of the loaders that Headrace is measured against
	$(ENV) tools/peers.sh

PART ?= feed training
bench-gpu: install ## on a GPU: PART=feed, images a second beside DALI's and nvImageCodec's GPU decoders; PART=training, beside synthetic batches; both where none is named
	$(ENV) if [[ "$(PART)" == *feed* ]]; then tools/peers.sh gpu; fi
	$(ENV) cd bench/utilisation && CGO_CFLAGS="$$CGO_CFLAGS -Wno-deprecated-declarations" \
	  go build -ldflags=-extldflags=-Wl,-z,lazy -o ../../.build/bench/utilisation .
	$(ENV) if [ -z "$(IMAGES)" ]; then $(VENV_PYTHON) tools/demo_photographs.py .build/demo/photographs; fi
	$(ENV) if [[ "$(PART)" == *feed* ]]; then \
	  $(TEST_PYTHON) bench/feed.py "$(PHOTOGRAPHS)" --json .build/bench/feed.json $(BENCH_ARGS); fi
	$(ENV) if [[ "$(PART)" == *training* ]]; then \
	  $(TEST_PYTHON) bench/gpu.py "$(PHOTOGRAPHS)" --json .build/bench/gpu.json $(BENCH_ARGS); fi

soak: install ## memory, descriptors, maps and threads over 50 epochs
	$(ENV) if [ -z "$(IMAGES)" ]; then $(VENV_PYTHON) tools/demo_photographs.py .build/demo/photographs; fi
	$(ENV) $(TEST_PYTHON) bench/soak.py "$(PHOTOGRAPHS)"

docs: setup ## build docs/ as a site into .build/site; a broken link is an error
	$(ENV) tools/docs.sh

coverage: setup stores ## how much of the Go, C and Python code the tests run, together: half an hour
	$(ENV) tools/coverage.sh

release: setup ## dist/ with wheel, source distribution, SHA256SUMS and notes of this version; uploads nothing
	$(ENV) tools/release.sh

clean: ## remove what was built, keep installed tools and caches
	rm -rf build dist wheelhouse .build/venv .build/wheel .build/demo .build/ctest* .build/libheadrace.* \
	  python/headrace/*.so python/*.egg-info

distclean: clean ## remove everything that any target made
	rm -rf .venv .build .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis
