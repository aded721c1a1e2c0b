# Every command a contributor needs. `make help` lists them.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  = -s -w -X main.version=$(VERSION)
# Leaves the gRPC half of Google's client out, which nothing here uses: 13 MB, and 40 ms at every start.
TAGS     = disable_grpc_modules
# Programs, test servers (test/stores/source.go), tests, vet and lint compile alike, so that no package is compiled twice. Without
# DWARF, which only debuggers read, the compiler takes a quarter less time, and the linker a third.
export CGO_ENABLED := 0
export GOFLAGS     := $(strip $(GOFLAGS) -trimpath -tags=$(TAGS) -gcflags=all=-dwarf=false -ldflags=-w)

# Tools and test servers are built once from pinned modules and kept here by version.
CACHE   := $(or $(DRUID_TEST_CACHE),$(HOME)/.cache/druid-test)
export DRUID_TEST_CACHE := $(CACHE)

GOLANGCI_VERSION = v2.15.0
GOLANGCI         = $(CACHE)/golangci-lint-$(GOLANGCI_VERSION)/golangci-lint

CONTROLLER_GEN_VERSION = v0.21.0
CONTROLLER_GEN         = $(CACHE)/controller-gen-$(CONTROLLER_GEN_VERSION)/controller-gen

CYCLONEDX_VERSION   = v1.10.0
CYCLONEDX           = $(CACHE)/cyclonedx-gomod-$(CYCLONEDX_VERSION)/cyclonedx-gomod
GOVULNCHECK_VERSION = v1.9.0

# Test servers that the suites of the test module start. The demonstrations without Kubernetes need
# the first two alone, which takes neither root nor Node.js.
BASIC_SERVERS = minio etcd
KUBERNETES_SERVERS = kubernetes node-tools pause
SERVERS = $(BASIC_SERVERS) ceph rclone fake-gcs-server azurite namespaces etcd-3.5 etcd-3.5.12 etcdutl-3.5 $(KUBERNETES_SERVERS)

say = @printf '\n==> %s\n' "$(1)"

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the programs into bin/
	$(call say,building the programs into bin/)
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -tags $(TAGS) -trimpath -ldflags "$(LDFLAGS)" -o bin/ ./cmd/...

# One image holds all programs; whoever starts one says which.
IMAGE     = registry.local/etcd-druid:$(VERSION)
IMAGE_TAR = bin/etcd-druid-image.tar

.PHONY: image
image: build ## pack the programs into a container image, bin/etcd-druid-image.tar, without Docker
	$(call say,packing $(IMAGE) into $(IMAGE_TAR))
	cd test && $(GO) run ./cmd/image -system -name $(IMAGE) -out ../$(IMAGE_TAR) $(foreach program,etcd-druid etcdbrctl etcd-wrapper,/usr/local/bin/$(program)=../bin/$(program))

.PHONY: cluster
cluster: ## bring up a Kubernetes of three nodes to try things on (root; stop it with: cd test && go run ./cmd/cluster down)
	$(call say,Kubernetes)
	@cd test && $(GO) run ./cmd/stores install $(KUBERNETES_SERVERS) && $(GO) run ./cmd/cluster up

.PHONY: demo
demo: image kubernetes-servers ## the operator on a Kubernetes of three nodes: a node is turned off, all volumes are lost, the bucket restores (root)
	$(call say,the demonstration on Kubernetes)
	@cd test && $(GO) run ./cmd/demokube -bin ../bin -image $(IMAGE) -tar ../$(IMAGE_TAR)

.PHONY: demo-data
demo-data: build basic-servers ## back up a real etcd into locked storage, lose it, restore it, prove it, without Kubernetes
	$(call say,the demonstration)
	@cd test && $(GO) run ./cmd/demo -etcdbrctl ../bin/etcdbrctl

.PHONY: demo-member
demo-member: build basic-servers ## three members that heal themselves: killed, damaged, scaled, lost and restored
	$(call say,the demonstration of members)
	@cd test && $(GO) run ./cmd/demomember -bin ../bin

.PHONY: servers
servers: ## install the test servers that are missing (MinIO and Kubernetes take minutes, once; Ceph, namespaces and nodes need root)
	$(call say,test servers in $(CACHE))
	@cd test && $(GO) run ./cmd/stores install $(SERVERS)

.PHONY: basic-servers
basic-servers:
	$(call say,test servers in $(CACHE))
	@cd test && $(GO) run ./cmd/stores install $(BASIC_SERVERS)

.PHONY: kubernetes-servers
kubernetes-servers:
	$(call say,MinIO and Kubernetes in $(CACHE))
	@cd test && $(GO) run ./cmd/stores install minio $(KUBERNETES_SERVERS)

.PHONY: journey-servers
journey-servers:
	$(call say,test servers in $(CACHE))
	@cd test && $(GO) run ./cmd/stores install minio fake-gcs-server azurite etcd-3.5 $(KUBERNETES_SERVERS)

# What takes longest takes turns: TURNS=3 lets every third of it go, and the commit says which. Of one turn all goes but what
# is for make soak alone. test/cmd/turns/long.txt lists it.
TURNS ?= 1
SKIP   = $$($(GO) run ./cmd/turns -turns '$(TURNS)' -commit "$$(git rev-parse --verify HEAD 2>/dev/null || echo 0000000)")

# Programs that were built already, for the tests that start them. Without it they are built anew.
test soak: export DRUID_TEST_BIN := $(abspath bin)

.PHONY: test
test: build servers ## everything that must pass, on real servers; TURNS=3 leaves out two thirds of what takes longest
	$(call say,tests of the product (no servers needed))
	$(GO) test -vet=off -p 4 ./... # they wait more than they compute; make check vets them
	$(call say,tests against real servers (etcd and object stores))
	@# The longest come first. The journeys are what make e2e runs, and templates come last.
	cd test && skip=$(SKIP) && $(GO) test -vet=off -p 2 -timeout 75m -skip "$$skip" ./e2e ./operator ./conformance/s3 $$($(GO) list ./... | grep -vE '/(journeys|chart)$$')
	cd test && $(GO) test -count 1 ./chart # templates are outside of the module, so their changes are not seen otherwise

# Packages whose goroutines share memory. The detector needs cgo, and makes programs several times slower.
RACE_PACKAGES = ./internal/agent/... ./internal/agentapi/auth/... ./internal/agentapi/httpserver ./internal/wrapper/... ./internal/operator/cluster ./internal/operator/kube \
  ./internal/operator/sidecars ./internal/operator/metrics ./internal/engine/fetch ./internal/engine/replay ./internal/engine/upload \
  ./internal/store/parts ./internal/store/retry ./internal/store/metered ./internal/store/dial

.PHONY: race
race: ## tests of the concurrent packages under the race detector (root, where no C compiler is installed)
	$(call say,race detector (its own build of all packages takes minutes the first time))
	@command -v gcc >/dev/null || { apt-get update -qq && apt-get install -y -qq gcc libc6-dev; }
	CGO_ENABLED=1 $(GO) test -race -vet=off -timeout 5m $(RACE_PACKAGES)

.PHONY: check
check: $(GOLANGCI) ## formatting, lint with go vet's analyses, import directions, tidy modules
	$(call say,formatting)
	@out=$$(gofmt -l api cmd config hack internal test); test -z "$$out" || { echo "run gofmt -w on:"; echo "$$out"; exit 1; }
	$(call say,go.mod is tidy)
	$(GO) mod tidy -diff
	cd test && $(GO) mod tidy -diff
	$(call say,other platforms: all programs on linux/arm64 and the command line on darwin/arm64)
	GOOS=linux GOARCH=arm64 $(GO) vet ./cmd/...
	GOOS=darwin GOARCH=arm64 $(GO) vet ./cmd/etcdbrctl
	$(call say,tests that the documentation promises)
	hack/known-failures.sh
	$(call say,lint and import directions (all is compiled for it, which takes minutes the first time))
	$(GOLANGCI) run --timeout 20m ./...
	cd test && $(GOLANGCI) run --timeout 20m --config ../.golangci.yml ./...

$(GOLANGCI):
	$(call say,building golangci-lint $(GOLANGCI_VERSION) once (a few minutes))
	@mkdir -p $(dir $@)
	GOBIN=$(abspath $(dir $@)) $(GO) install -ldflags="-s -w" github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

$(CONTROLLER_GEN):
	$(call say,building controller-gen $(CONTROLLER_GEN_VERSION) once)
	@mkdir -p $(dir $@)
	GOBIN=$(abspath $(dir $@)) $(GO) install -ldflags="-s -w" sigs.k8s.io/controller-tools/cmd/controller-gen@$(CONTROLLER_GEN_VERSION)

$(CYCLONEDX):
	$(call say,building cyclonedx-gomod $(CYCLONEDX_VERSION) once)
	@mkdir -p $(dir $@)
	GOBIN=$(abspath $(dir $@)) $(GO) install -ldflags="-s -w" github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX_VERSION)

.PHONY: sbom
sbom: build $(CYCLONEDX) ## write a software bill of materials of each program into bin/sbom/ (CycloneDX), and check licences
	$(call say,bills of materials in bin/sbom/)
	@mkdir -p bin/sbom
	@for program in $(notdir $(wildcard cmd/*)); do \
	  echo "bin/sbom/$$program.cdx.json"; \
	  $(CYCLONEDX) bin -json -licenses -std -version "$(VERSION)" -output bin/sbom/$$program.cdx.json bin/$$program 2>bin/sbom/$$program.log || { cat bin/sbom/$$program.log; exit 1; }; \
	  rm bin/sbom/$$program.log; \
	done
	$(GO) run ./hack/licences bin/sbom/*.cdx.json

.PHONY: vulnerabilities
vulnerabilities: ## look up known vulnerabilities of what is linked (govulncheck; needs its database, or GOVULNDB=file://DIRECTORY)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) $(if $(GOVULNDB),-db $(GOVULNDB)) ./...

# Journeys of the operator by name, with commas; all of them, after the demonstrations, without.
FOCUS ?=

# A Kubernetes to use instead of one from source. Only what is said on the command line counts: the one that
# a shell happens to point to may be in production.
E2E_KUBECONFIG = $(if $(filter command line,$(origin KUBECONFIG)),$(KUBECONFIG))

.PHONY: e2e
e2e: $(if $(FOCUS)$(E2E_KUBECONFIG),,demo-data demo) build journey-servers ## whole journeys on real parts; FOCUS=rollout goes that one alone, FOCUS=? lists them (root)
	$(call say,journeys of the operator)
	cd test && skip=$(if $(FOCUS),,$(SKIP)) && $(GO) test -vet=off -count 1 -timeout 40m -parallel 2 -v ./journeys -skip "$$skip" -focus '$(FOCUS)' -kubeconfig '$(abspath $(E2E_KUBECONFIG))' -host '$(HOST)' -image '$(if $(E2E_KUBECONFIG),$(IMAGE))' -next-image '$(NEXT_IMAGE)'

.PHONY: bench
bench: build servers ## measure speed and memory, write docs/performance.md and its plot
	$(call say,benchmarks)
	cd test && $(GO) run ./cmd/bench -etcdbrctl ../bin/etcdbrctl -out ../docs/performance.md

.PHONY: soak
soak: HOURS ?= 4
soak: build servers ## the long forms of all stories, HOURS (4) of backing up, then crashes in an endless loop
	cd test && $(GO) run ./cmd/stores install kubernetes-1.34
	cd test && $(GO) test -timeout 20m -count 1 -v ./cluster -kubernetes kubernetes-1.34
	cd test && $(GO) test -timeout 80m -count 1 -v ./operator -kubernetes kubernetes-1.34
	cd test && $(GO) test -timeout 60m -count 1 -v ./cmd/bench ./conformance/azure
	cd test && $(GO) test -timeout 60m -count 1 -v ./linear -operations 100000
	cd test && $(GO) test -timeout 0 -count 1 -v ./operator -run 'TestAnOperatorThatDies|AreRefusedAreTakenAgain' -soak
	cd test && $(GO) test -timeout 0 -count 1 -v ./e2e -skip 'TestPropertyWhatever|TestPropertyASnapshotter' -soak -interruptions 48
	cd test && $(GO) test -timeout 0 -count 1 -v ./e2e -run 'TestPropertyWhatever|TestPropertyASnapshotter' -soak -hours $(HOURS) -kills 200

.PHONY: generate
generate: $(CONTROLLER_GEN) ## regenerate what is generated from code: definitions, reference pages, golden files
	$(call say,generating api/v1alpha1 and config/crd/bases)
	$(CONTROLLER_GEN) object crd paths=./api/v1alpha1 output:object:dir=api/v1alpha1 output:crd:dir=config/crd/bases
	@# A rule of CEL is not asked about a value of another type, and the generator gives patterns to text alone:
	@# by these the refusal of a configuration or an Etcd as text says how it is written.
	sed -i 's|^              config:$$|&\n                pattern: "^write it as an object, as in config: {onDemandSnapshot: {type: full}}, and not as text$$"|; s|^              ownerEtcdRef[a-z]*:$$|&\n                pattern: "^write ownerEtcdReference: {name: NAME-OF-THE-ETCD}, and not as text$$"|' config/crd/bases/druid.gardener.cloud_etcdoperatortasks.yaml
	$(call say,generating charts/druid/files)
	$(GO) run ./hack/chart charts/druid/files
	cd test && $(GO) test -count 1 ./chart -update
	$(call say,generating docs/reference)
	$(GO) run ./hack/apidocs docs/reference/api.md
	$(GO) run ./cmd/etcdbrctl docs docs/reference
	$(GO) run ./cmd/etcd-wrapper docs docs/reference
	$(GO) run ./cmd/etcd-druid docs docs/reference
	cd test && $(GO) run ./cmd/storetable

.PHONY: clean
clean: ## remove bin/ (the cache of servers stays)
	rm -rf bin
