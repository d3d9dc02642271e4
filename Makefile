# `make` alone lists the targets.

GO          ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2

# How many packages are tested at once: each starts a Postgres of its own.
PARALLEL  ?= 2
# How long each fuzz target runs.
FUZZTIME  ?= 10s
# How long each benchmark runs: a time, or a number of times as in 1x.
BENCHTIME ?= 1s
# Which runs of make torture: a seed decides everything in one.
START     ?= 1
SEEDS     ?= 20
# More flags for go test, as in make test TESTFLAGS='-run Stale -v'.
TESTFLAGS ?=
# What to test, as in make test PKG=./machine/...
PKG       ?= ./...
IMAGE     ?= weir

# The version is the commit's, where git is there to tell.
BUILDVCS := $(shell git rev-parse --git-dir >/dev/null 2>&1 && echo true || echo false)

.DEFAULT_GOAL := help
.PHONY: help build demo test lint model peers fuzz cover bench gobench torture scenarios docker clean need-go need-tests

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: need-go ## Build the static binary bin/weir
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=$(BUILDVCS) -ldflags '-s -w' -o bin/weir ./cmd/weir

demo: build ## Show everything at work on this machine: Postgres, a sandbox for Stripe, the relay
	bin/weir demo

test: need-tests ## Run all tests, on a real Postgres (installs one where it is missing and it may)
	CGO_ENABLED=1 $(GO) test -race -timeout 10m -p $(PARALLEL) $(TESTFLAGS) $(PKG)

lint: need-go ## Check format, go vet and staticcheck
	@files=$$(gofmt -l .); test -z "$$files" || { echo "gofmt -w these:"; echo "$$files"; exit 1; } >&2
	$(GO) vet ./...
	CGO_ENABLED=0 $(GO) run $(STATICCHECK) ./...

model: ## Check the formal model of machine and delivery, and that its mutants fail (minutes; gets spin)
	docs/model/run.sh

fuzz: need-tests ## Run each fuzz target for FUZZTIME
	@set -e; for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

bench: build need-tests ## Measure weir beside references in the same run (weir bench has more)
	bin/weir bench latency
	bin/weir bench drain
	bin/weir bench idle

gobench: need-tests ## Run the benchmarks beside the code, each for BENCHTIME
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -p 1 $(PKG)

torture: need-tests ## Kill, cut and freeze everything around weir for SEEDS runs, from START on, and check each
	CGO_ENABLED=1 $(GO) run ./internal/torture/cmd -start $(START) -seeds $(SEEDS)

scenarios: need-tests ## Failover, full disk, wrong clock, a million items; and broken weirs that torture has to catch
	WEIR_TEST_TORTURE=1 $(GO) test -count=1 -timeout 30m -v ./internal/torture

peers: need-go ## Measure weir beside River, watermill-sql and a poller (minutes; a module of its own)
	cd bench/peers && $(GO) run .

cover: need-tests ## Run all tests and say what they cover
	@mkdir -p bin
	$(GO) test -timeout 10m -p $(PARALLEL) -coverpkg ./... -coverprofile bin/cover.out $(PKG)
	@$(GO) tool cover -html bin/cover.out -o bin/cover.html
	@$(GO) tool cover -func bin/cover.out | tail -1
	@echo "line by line: bin/cover.html"

docker: ## Build the image
	docker build -t $(IMAGE) .

clean: ## Remove what was built
	rm -rf bin

need-go:
	@command -v $(GO) >/dev/null || { echo "weir is built with Go 1.26 or newer: install it from https://go.dev/dl/ and put its bin folder on the PATH" >&2; exit 1; }

need-tests: need-go
	@.ci/c-compiler
	@$(GO) run ./internal/pgtest/prepare
