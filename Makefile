# Every command a contributor needs. `make help` lists them.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  = -s -w -X main.version=$(VERSION)
# Leaves the gRPC half of Google's client out, which nothing here uses: 13 MB, and 40 ms at every start.
TAGS     = disable_grpc_modules

# Tools and test servers are built once from pinned modules and kept here by version.
CACHE   := $(or $(DRUID_TEST_CACHE),$(HOME)/.cache/druid-test)
export DRUID_TEST_CACHE := $(CACHE)

GOLANGCI_VERSION = v2.15.0
GOLANGCI         = $(CACHE)/golangci-lint-$(GOLANGCI_VERSION)/golangci-lint

# Test servers that the suites of the test module start. The demonstration needs the first two
# alone, which takes neither root nor Node.js.
BASIC_SERVERS = minio etcd
SERVERS = $(BASIC_SERVERS) ceph rclone fake-gcs-server azurite

say = @printf '\n==> %s\n' "$(1)"

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the programs into bin/
	$(call say,building bin/etcdbrctl)
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -tags $(TAGS) -trimpath -ldflags "$(LDFLAGS)" -o bin/ ./cmd/...

.PHONY: demo
demo: demo-data ## back up a real etcd into locked storage, lose it, restore it, prove it

.PHONY: demo-data
demo-data: build basic-servers ## the same without Kubernetes
	$(call say,the demonstration)
	@cd test && $(GO) run ./cmd/demo -etcdbrctl ../bin/etcdbrctl

.PHONY: servers
servers: ## install the test servers that are missing (MinIO takes a few minutes, once; Ceph needs root)
	$(call say,test servers in $(CACHE))
	@cd test && $(GO) run ./cmd/stores install $(SERVERS)

.PHONY: basic-servers
basic-servers:
	$(call say,test servers in $(CACHE))
	@cd test && $(GO) run ./cmd/stores install $(BASIC_SERVERS)

.PHONY: test
test: build servers ## everything that must pass, on real servers
	$(call say,tests of the product (no servers needed))
	$(GO) test ./...
	$(call say,tests against real servers (etcd and object stores))
	cd test && $(GO) test -timeout 30m ./...

.PHONY: check
check: $(GOLANGCI) ## formatting, vet, lint, import directions, tidy modules
	$(call say,formatting)
	@out=$$(gofmt -l cmd internal test); test -z "$$out" || { echo "run gofmt -w on:"; echo "$$out"; exit 1; }
	$(call say,go vet)
	$(GO) vet ./...
	cd test && $(GO) vet ./...
	$(call say,go.mod is tidy)
	$(GO) mod tidy -diff
	cd test && $(GO) mod tidy -diff
	$(call say,tests that the documentation promises)
	hack/known-failures.sh
	$(call say,lint and import directions)
	$(GOLANGCI) run --timeout 20m ./...
	cd test && $(GOLANGCI) run --timeout 20m --config ../.golangci.yml ./...

$(GOLANGCI):
	$(call say,building golangci-lint $(GOLANGCI_VERSION) once (a few minutes))
	@mkdir -p $(dir $@)
	GOBIN=$(abspath $(dir $@)) $(GO) install -trimpath -ldflags="-s -w" github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

.PHONY: e2e
e2e: demo-data ## whole journeys on real parts

.PHONY: bench
bench: build servers ## measure speed and memory, write docs/performance.md and its plot
	$(call say,benchmarks)
	cd test && $(GO) run ./cmd/bench -etcdbrctl ../bin/etcdbrctl -out ../docs/performance.md

.PHONY: soak
soak: HOURS ?= 4
soak: build servers ## HOURS (4) of backing up that must not need more and more, then crashes in an endless loop
	cd test && $(GO) test -timeout 0 -count 1 -v ./e2e -run Property -soak -hours $(HOURS)

.PHONY: generate
generate: ## regenerate reference pages and golden files that are generated from code
	$(call say,generating docs/reference)
	$(GO) run ./cmd/etcdbrctl docs docs/reference
	cd test && $(GO) run ./cmd/storetable

.PHONY: clean
clean: ## remove bin/ (the cache of servers stays)
	rm -rf bin
