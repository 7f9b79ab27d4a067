# Everything that is done with this project is done from here: `make help` lists it.
GO      ?= go
COUNT   ?=
PYTHON  ?= python3
BIN      = bin
PACKAGES = $$($(GO) list ./... | grep -v /integration)
RACE    ?= -race
# What is compiled for one checkout or program serves the others. `make check` vets all: `go test` need not do it again.
export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
# A test that fails is run once more, alone, and named at the end. If it passes then, the run passes: many of these
# tests play faults with real processes, and a busy machine adds its own.
TESTSUM     = gotest.tools/gotestsum@v1.13.0 --format standard-quiet --rerun-fails=1 --rerun-fails-max-failures=5

.DEFAULT_GOAL := help
.PHONY: help release build demo test check vuln unit fuzz integration soak seeds kube slurm frameworks fidelity wheel bench bench-stay bench-load bench-checkpoint gpu spec image clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

build: ## static binaries elastic, elasticd and elastic-demo in bin/
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN)/ ./cmd/...

demo: build ## two nodes here, one killed before your eyes, then three: a minute
	./demo/demo.sh

test: check unit integration $(if $(KUBE_CACHE),kube slurm) ## everything that must pass: under half an hour on two cores; KUBE_CACHE=DIR adds kube and slurm

check: ## gofmt, vet, staticcheck; mypy --strict and ruff of the helper; prints how large the whole and its parts are
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "gofmt these files"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	python/types.sh $(HOME)/.cache/elastic-types
	@$(GO) test ./internal -count=1 -run TestSizes -v | grep -E 'largest|longest| all |FAIL'

vuln: ## known vulnerabilities in what is linked
	$(GO) run $(GOVULNCHECK) $(if $(VULNDB),-db=$(VULNDB)) ./...

# Several tests at once on any machine: they wait for leases and limits more than they compute.
# The race detector makes a process ten times slower. What plays many lives in one goroutine, or starts other processes,
# runs without it, the longest first. STORIES are played both ways, fewer with it.
PLAIN := TestScripts|TestBadCommandLines|FuzzEnvironment|TestBehindIsBounded|TestEmptyFilesAreCheap|TestEverySystemCall|TestPlayedDisk
PLAIN := $(PLAIN)|TestRandomLives|TestEveryFault|TestDiskUse|TestEventsStay|TestPrepareMends|TestHoldersLose|TestScrub
PLAIN := $(PLAIN)|TestSharedRecords|TestARowOf|TestANodeCut|TestGarbageForSeconds|TestACutOf|TestADeafWatch|TestAPauseOf|TestCutsInside
PLAIN := $(PLAIN)|TestAShortSuspicion|TestModel|TestHelper
STORIES = TestSchedules|TestWipes|TestSaves|TestReplay|TestBadNodes|TestDrains
unit: ## every package, with the race detector or, where that takes long, without
	./spec/fetch.sh
	$(GO) run $(TESTSUM) --packages="$(PACKAGES)" -- $(RACE) -vet=off -p 3 -parallel 4 -timeout 20m -skip '^($(PLAIN))'
	CGO_ENABLED=0 $(GO) run $(TESTSUM) --packages="./spec ./internal/simulation $$(grep -rlE '^func ($(PLAIN)|$(STORIES))' --include=*_test.go --exclude-dir=integration . | \
		xargs -n1 dirname | sort -u | tr '\n' ' ')" -- -vet=off -p 3 -timeout 10m -run '^($(PLAIN)|$(STORIES))'

# Every decoder of bytes from elsewhere: package and target.
FUZZ = pkg/checkpoint/manifest:FuzzDecodeManifest pkg/rendezvous/status:FuzzRecords internal/diagnosis:FuzzExplain \
	pkg/checkpoint/transfer:FuzzHandler pkg/checkpoint/capture/files:FuzzCheck internal/peer:FuzzReceive \
	internal/diagnosis:FuzzRAS internal/logs:FuzzAnswer internal/logs:FuzzQuery internal/logs:FuzzFold \
	internal/progress:FuzzProgress internal/cli/command:FuzzParse internal/cli:FuzzCommandLine internal/cli:FuzzEnvironment \
	internal/handover:FuzzSocket internal/handover:FuzzStore internal/hang:FuzzEvidence internal/hang:FuzzAsk internal/hang:FuzzKernel \
	internal/check:FuzzRequest internal/check:FuzzTransfer pkg/checkpoint/chunkstore:FuzzDisk internal/node/disk:FuzzMemory \
	pkg/checkpoint/capture:FuzzProgress internal/kube:FuzzStatefulSets
# Inputs, not seconds: at the end of its time `go test -fuzz` sometimes fails with "context deadline exceeded". Each
# input that reaches new code would be made shorter for up to a minute: -fuzzminimizetime bounds that.
FUZZTIME ?= 10000x

fuzz: ## random bytes into every decoder, FUZZTIME (10000x) inputs each
	@for f in $(FUZZ); do echo "fuzz $$f"; $(GO) test ./$${f%%:*} -run '^$$' -fuzz "^$${f##*:}$$" -fuzztime $(FUZZTIME) \
		-fuzzminimizetime 100x || exit 1; done

integration: build ## the binaries, real processes and containers (needs docker and docker-compose)
	CGO_ENABLED=0 $(GO) run $(TESTSUM) --packages="./integration/..." -- -vet=off -count=1 -parallel 5 -timeout 25m

seeds: ## COUNT stories (100000) of each simulation of agents, from SEED on, on one core: half a day; a failure names its seed
	SEED=$(or $(SEED),1) COUNT=$(or $(COUNT),100000) GOMAXPROCS=1 $(GO) test -count=1 -timeout 72h ./internal/simulation -run 'TestSchedules|TestSaves|TestWipes|TestBadNodes|TestDrains'

soak: ## the same, long: COUNT sets how long, TORCH which python has torch 2; TestRandomFaults for 300 rounds takes an hour
	$(MAKE) fuzz FUZZTIME=100000x
	PYTHONPATH=python $(PYTHON) python/compare.py
	COUNT=$(or $(COUNT),1000) $(GO) test -count=1 -timeout 3h ./internal/simulation -run 'TestSchedules|TestSavesOutlive|TestSavesIn|TestWipes|TestBadNodes|TestDrains'
	COUNT=$(or $(COUNT),30) $(GO) test -count=1 -timeout 1h ./internal/simulation -run TestReplay
	COUNT=$(or $(COUNT),1000) $(GO) test -count=1 -timeout 1h ./internal/plants
	COUNT=$(or $(COUNT),300) $(GO) test -count=1 -timeout 6h ./integration -run TestRandomFaults -v
	COUNT=$(or $(COUNT),60) $(GO) test -count=1 -timeout 3h ./integration -run TestSlowWorkIsNoHang
	COUNT=$(or $(COUNT),20) $(GO) test -count=1 -timeout 6h ./integration/...
	COUNT=1 $(GO) test -count=1 -timeout 1h ./pkg/checkpoint -run TestEveryFaultOfParts
	$(if $(TORCH),TORCH=$(TORCH) COUNT=$(or $(COUNT),30) $(GO) test -tags torch -count=1 -timeout 6h ./integration -run 'TestFSDP|TestANodeIsLostWhile|TestScriptsOfUsersStay|TestFullyShardedStateIsReportedAndNotKept' -v)
	$(MAKE) frameworks COUNT=$(or $(COUNT),20)
	$(MAKE) kube
	$(MAKE) slurm
	TORCH=$(TORCH) COUNT=$(or $(COUNT),50) $(GO) test -count=1 -timeout 3h ./integration -run TestWorkersStayInTheirProcesses
	TORCH=$(TORCH) $(GO) test -count=1 -timeout 1h ./integration -run TestWarmWorkersTakeOver

kube: image ## the manifests on a real Kubernetes of three nodes (needs root), built from source once into KUBE_CACHE (17 minutes; then 4)
	integration/kube/run.sh $(or $(KUBE_CACHE),$(HOME)/.cache/elastic-kube) $(BIN)

slurm: build ## the sbatch template on a real Slurm of three nodes (needs root, slurm-wlm, munge): four minutes
	$(GO) test -tags slurm -count=1 -timeout 20m -v ./integration/slurm

FRAMEWORKS ?= $(HOME)/.cache/elastic-frameworks

frameworks: wheel ## from the wheel alone, all examples and real PyTorch, Paddle, accelerate, Lightning, Transformers and JAX survive killed nodes, with Pythons and torches of all ages; FRAMEWORKS=DIR has or gets them: an hour
	integration/frameworks.sh $(FRAMEWORKS)
	FRAMEWORKS=$(FRAMEWORKS) COUNT=$(or $(COUNT),1) $(GO) test -tags frameworks -count=1 -timeout 6h -v ./integration -run "TestFrameworks|TestIntegrations|TestVersions"
	TORCHRUN=$(FRAMEWORKS)/torch/bin/torchrun PATH=$(FRAMEWORKS)/torch/bin:$$PATH $(GO) test -count=1 ./integration ./docs -run 'TestTorchrunLines|TestFlagsOfRealTorchrun'

fidelity: ## samplers of others through 10,000 sequences of worlds, what end_step() costs, and programs of users: COUNT changes of each; PYTHON with torch, accelerate, torchdata; HOROVOD=DIR
	cd python && SEQUENCES=10000 $(PYTHON) -m unittest tests.test_sampler
	PYTHONPATH=python $(PYTHON) python/compare.py $(if $(HOROVOD),--horovod $(HOROVOD))
	$(PYTHON) python/bench.py
	TORCH=$$(command -v $(PYTHON)) COUNT=$(or $(COUNT),20) $(GO) test -count=1 -timeout 12h -v ./integration -run TestProgramsOfUsers

wheel: ## the wheel for pip of this machine, in bin/: elastic, elasticd, elastic-demo and import elastic
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(BIN)/stripped/ ./cmd/...
	$(BIN)/stripped/elastic wheel $(BIN)

bench: build ## how fast a job recovers, beside torchrun: TRIALS=n, PEER_TRIALS=n, TORCHRUN=VENV; forty minutes
	$(GO) build -o $(BIN)/bench ./bench
	TORCHRUN="$(TORCHRUN)" exec $(BIN)/bench -bin $(BIN) -trials $(or $(TRIALS),20) -peer $(or $(PEER_TRIALS),3)

bench-stay: ## kills, standstills and joins under the training function: COUNT=n of them (100), then a kill a minute for MINUTES (20); TORCH=python
	COUNT=$(or $(COUNT),100) SEED=1 $(GO) test ./integration -run TestWorkersStayInTheirProcesses -count 1 -v -timeout 2h
	COUNT=$(or $(MINUTES),20) EVERY=1m SEED=2 $(GO) test ./integration -run TestWorkersStayInTheirProcesses -count 1 -v -timeout 2h

bench-load: ## a thousand agents of one process on one elasticd, its page, and plans for 10,000 nodes: NODES=n; eight minutes
	NODES="$(NODES)" $(GO) test ./integration -run '^$$' -bench 'Load|Page' -benchtime 1x -timeout 20m
	$(GO) test ./pkg/rendezvous -run '^$$' -bench Plan

bench-checkpoint: build ## how fast a checkpoint of SIZE bytes (2 GB) is saved, beside cp and a TLS copy, and four parts beside one; TRIALS=n (10)
	$(GO) build -o $(BIN)/bench ./bench
	$(GO) test -run '^$$' -bench Parts -count $(or $(TRIALS),10) -benchtime 3x -timeout 0 ./pkg/checkpoint/pipeline
	exec $(BIN)/bench -bin $(BIN) -trials $(or $(TRIALS),10) -size $(or $(SIZE),2000000000)

gpu: ## recovery, hangs, saves and kept time on GPUs, with checked results: PARTS=abcde, DRY=1 for gloo on processors; bin/gpu runs without Go
	rm -rf $(BIN)/gpu && mkdir -p $(BIN)/gpu/python
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(BIN)/gpu/ ./cmd/elastic ./cmd/elasticd
	cp bench/gpu/*.py $(BIN)/gpu/ && cp -r python/elastic $(BIN)/gpu/python/
	@du -sm $(BIN)/gpu | awk '{ if ($$1 > 64) { print "bin/gpu has " $$1 " MiB, more than 64"; exit 1 } }'
	$(PYTHON) $(BIN)/gpu/run.py $(if $(DRY),--dry) --parts=$(or $(PARTS),abcde)

spec: ## model-check the protocol (needs Java)
	./spec/fetch.sh && ./spec/run --all

release: ## what a version is published as, in dist/, from a clean commit: VERSION=v1.2.3; built twice, the same bytes
	@test -z "$$(git status --porcelain)" || { git status --short; echo "commit these first: a release is a commit"; exit 1; }
	$(GO) run ./release -version "$(VERSION)" -out dist -check

clean: ## remove what was built
	rm -rf $(BIN) dist

image: build ## container image elastic:local from the static binaries
	mkdir -p $(BIN)/data # empty: what the user of the image may write to
	docker build -q -t elastic:local -f deploy/Dockerfile .
