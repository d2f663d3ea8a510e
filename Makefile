# Two of these are for a first visit: make run, make test. `make` lists them all.

SHELL  := /bin/sh
GO     := .cache/bin/go
PREFIX ?= /usr/local

# The tools of make check and make full, by version: the same finding everywhere.
STATICCHECK := v0.8.2
GOLANGCI    := v2.15.0

# The Go that .ci/deps.sh found or fetched is the one used: go.mod's toolchain
# line shall not fetch another in the middle of a build.
export GOTOOLCHAIN := local
# The linters call go by its name.
export PATH := $(CURDIR)/.cache/bin:$(PATH)

# Only recipes that use these pay for git. A tree without git is version dev.
VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT  = $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS = -X main.version=$(VERSION) -X main.commit=$(COMMIT)
# -buildvcs=false: the stamp above is enough, and go's own fails where git
# distrusts the folder's owner (a mounted repository in a container).
BUILD   = $(GO) build -buildvcs=false -ldflags '$(LDFLAGS)'

# Packages whose tests run in the lab, too, where there are two RDMA devices.
LAB_TESTS := ./bench/lab ./bench/lab/pair ./csrc/verbs ./rdma/verbs ./sched/doctor/verbstest ./sched/job/verbstest ./sched/kv/device/verbstest ./sched/probe ./sched/relay \
	'./cmd/psbench:^Test(Suites|FanIn|Qualify|Perftest)$$' ./nccl/ring:TestConformance

# Packages whose tests run with the race detector: those where goroutines of one process meet.
# The pure ones have none (bench/repolint's pure.go). Two others simulate for minutes. Whole jobs (sched/job) take
# five minutes more with it; the packages that they consist of have it here, and make full runs them with it.
# All other packages run without it, and none runs twice.
PURE := place clock chain member fanin tree pipe/settle compress/span plan ledger densesplit
RACE  = $(filter-out $(PURE:%=psrt/sched/%) $(SLOW_RACE:%=psrt/sched/%),$(shell $(GO) list ./rdma/... ./sched/...))
SLOW_RACE := fanin/fanintest audit/judge job
PLAIN = $(filter-out $(RACE),$(shell $(GO) list ./...))

# Tests of cmd/psrt that combine deaths of which each has a test of its own: make full runs them.
LONG := TestMixedFaults|TestCoordinatorAndServerKilled|TestWorkersDieThatFindHowManyToMerge|TestWorkersDieThatMergeWhatTheyAreDealt|TestServersKilledOverDevice|TestStrangerEnds/who_writes_checkpoints

# All but pslab, which is made only where the lab is wanted.
COMMANDS = $(addprefix ./,$(filter-out cmd/pslab/,$(dir $(wildcard cmd/*/main.go))))

# The C library. Only the functions of psrt.h are exported; go build writes a
# header of its own, which nobody needs.
ABI = $(shell sed -n 's/^.define PSRT_ABI_M[A-Z]*OR //p;s/^.define PSRT_ABI_MINOR //p' cmd/libpsrt/psrt.h | paste -sd.)
LIBPSRT = $(GO) build -buildvcs=false -buildmode=c-shared -o bin/libpsrt.so \
	-ldflags '$(LDFLAGS) -extldflags "-Wl,-soname,libpsrt.so.1 -Wl,--version-script=$(CURDIR)/cmd/libpsrt/libpsrt.map"' ./cmd/libpsrt

# make lab's command line as it was typed, dollar signs and quotes included: the
# shell takes it from the environment.
export LAB_COMMAND = $(value CMD)

.PHONY: help run test build bench lab bin/pslab check full gpu-check generate install deps

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

deps: ## install what this machine lacks (the other targets do it first)
	@.ci/deps.sh

build: deps ## bin/psrt, bin/psbench, bin/libpsrt.so and bin/psrt.h
	@mkdir -p bin
	$(BUILD) -o bin/ $(COMMANDS)
	$(LIBPSRT)
	@rm -f bin/libpsrt.h
	@install -m 644 cmd/libpsrt/psrt.h bin/psrt.h
	@ln -sf libpsrt.so bin/libpsrt.so.1

# A million lines as of a click log, made by the project itself, cut into three
# parts in out/; then a factorization machine through two servers and two
# workers, in step, so that everybody gets the same model. FTRL's rate is for gradients
# averaged over the batch.
run: build ## train a CTR model on sample data, through 2 servers and 2 workers
	@mkdir -p out
	bin/psrt gen criteo --rows 1000000 --seed 1 --split 8:1:1 --out out/sample.tsv
	bin/psrt train --data out/sample.train.tsv --valid out/sample.valid.tsv --test out/sample.test.tsv \
		--model fm --optimizer ftrl --lr 1 --dense-optimizer adam --epochs 10 --sync bsp \
		--servers 2 --workers 2 --out out/model --report out/report.html

# The lab leaves a core idle: meanwhile the packages of the stages behind it are compiled.
test: build bin/pslab ## what a change can break, RDMA in the lab included (docs/testing.md); make full has the rest
	.ci/deps.sh test
	$(GO) vet ./...
	CGO_ENABLED=0 $(GO) build ./...
	{ nice -n 19 $(GO) list -race -test -export -deps $(RACE); nice -n 19 $(GO) list -test -export -deps $(PLAIN); } >/dev/null & \
		bin/pslab test --numa --short --timeout 45m $(LAB_TESTS) && wait
	@.ci/gpu-check.sh --list
	$(GO) test -short -vet=off -race -timeout 30m $(RACE)
	$(GO) test -short -vet=off -timeout 30m -skip '$(LONG)' $(PLAIN)

lab: build bin/pslab ## make lab CMD="bin/psbench lat": run it where there are two RDMA devices (docs/lab.md)
	@[ -n "$$LAB_COMMAND" ] || { echo 'make lab wants a command: make lab CMD="ibv_devinfo"' >&2; exit 2; }
	@bin/pslab run -- sh -c "$$LAB_COMMAND"

# Without cgo: it is also the first process of a virtual machine, where there
# are no libraries yet.
bin/pslab: deps
	@.ci/deps.sh lab
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -buildvcs=false -o bin/ ./cmd/pslab

# What make bench runs, in under 5 minutes; fanin makes a link of its own where it may.
SMOKE = --sizes 64,4K,64K,1M --iters 1000
BENCHES = "lat --transport shm $(SMOKE)" "lat --transport tcp $(SMOKE)" "bw --transport shm $(SMOKE)" "bw --transport tcp $(SMOKE)" \
	"pull --transport shm --batches 20" "pull --transport tcp --batches 20" "push --transport shm --batches 20" \
	"push --transport tcp --batches 20" "push --dense --transport shm" "table --batches 30" codec \
	"fanin --workers 1,8,64 --rate 200mbit --bytes 64K --link $(if $(filter 0,$(shell id -u)),veth,none)"

bench: build ## psbench's smoke suites: transports, tables, codec and fan-in, each beside its limit
	@for run in $(BENCHES); do echo "bin/psbench $$run"; bin/psbench $$run || exit; done

check: deps .cache/bin/staticcheck-$(STATICCHECK) ## fast: format, vet, lint, house rules, generated files unchanged
	@files=$$(.cache/bin/gofmt -l bench cmd csrc nccl rdma sched tiers 2>/dev/null); \
		[ -z "$$files" ] || { echo "not formatted; run .cache/bin/gofmt -w on:"; echo "$$files"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags psrt_invariants ./...
	CGO_ENABLED=0 $(GO) vet ./...
	.cache/bin/staticcheck-$(STATICCHECK) ./...
	$(GO) mod tidy -diff
	.ci/deps.sh bpf
	@before=$$(git diff | cksum); $(GO) generate ./... || exit; \
		[ "$$before" = "$$(git diff | cksum)" ] || { echo "generated files differ from what make generate gives: commit its result"; exit 1; }
	$(GO) test ./bench/repolint

full: check bin/pslab .cache/bin/golangci-lint-$(GOLANGCI) ## the long form: race, invariants, ASan, without cgo, hundreds of kills, a minute of each fuzz test
	.ci/deps.sh test
	.cache/bin/golangci-lint-$(GOLANGCI) run ./...
	$(GO) test -race -timeout 3h ./...
	$(GO) test -tags psrt_invariants -timeout 90m ./...
	$(GO) test -asan -timeout 30m ./csrc/... ./tiers/...
	PSRT_SIGNAL_RUNS=50 $(GO) test -count=1 -run TestSignalHandlersWithoutStack ./cmd/libpsrt
	PSRT_SANITIZE=1 PSRT_CYCLES=1000 PSRT_FUZZ_CALLS=1000000 $(GO) test -timeout 60m -run 'TestEvery|TestThreads|TestCycles|TestRandom|TestHost|TestServerLost' ./cmd/libpsrt
	PSRT_KILLS=200 PSRT_SSD_KILLS=110 PSRT_SSD_FLIPS=1 $(GO) test -timeout 60m -run 'Kill|EveryByte' ./tiers/... ./cmd/psrt
	PSRT_CHAIN_MUTANTS=all PSRT_CHAIN_SEEDS=5000 $(GO) test -timeout 60m ./sched/chain
	PSRT_FAULT_RUNS=100 $(GO) test -timeout 3h -run 'TestServers|TestWorkers|TestLinksCut|TestMixedFaults|TestHeter(Ranks|Servers)Die|WhileServersDie' ./cmd/psrt
	PSRT_SUPPORT=all PSRT_DIGEST_ROWS=1000000 $(GO) test -timeout 4h -run 'TestSupport$$|TestDigestMatrix' ./cmd/psrt
	PSRT_SUPPORT=verbs bin/pslab test --timeout 4h --run 'TestSupport$$|TestDigestMatrix' ./cmd/psrt -- -test.timeout=230m
	PSRT_DIGEST_ROWS=1000000 PSRT_DIGEST_OVER=shm,verbs PSRT_DIGEST_DIM=4 bin/pslab test --timeout 4h --run 'TestDigestMatrix/verbs.*in_memory' ./cmd/psrt -- -test.timeout=230m
	PSRT_DIGEST_ROWS=1000000 PSRT_DIGEST_OVER=shm,verbs PSRT_DIGEST_DIM=32 bin/pslab test --timeout 4h --run 'TestDigestMatrix/verbs.*on_disks' ./cmd/psrt -- -test.timeout=230m
	CGO_ENABLED=0 $(GO) test -timeout 60m ./...
	bin/pslab test --race --numa --timeout 120m $(LAB_TESTS)
	GO=$(GO) .ci/moves.sh
	bin/pslab test --timeout 60m --run TestDeathsOverVerbs ./cmd/psrt -- -test.count=5 -test.timeout=50m
	bin/pslab test --timeout 60m --env PSRT_LEAK_CONNECTS=10000 --run Leak ./rdma/verbs -- -test.timeout=50m
	GO=$(GO) .ci/fuzz.sh 60s

gpu-check: ## every check that needs a GPU, on one; from a copied build it needs no Go and no network
	@.ci/gpu-check.sh

generate: deps ## make the generated files again
	.ci/deps.sh bpf
	$(GO) generate ./...

install: build ## binaries, the C library, man pages and shell completion, to PREFIX (/usr/local)
	install -d '$(DESTDIR)$(PREFIX)/include' '$(DESTDIR)$(PREFIX)/lib/pkgconfig'
	install -m 644 cmd/libpsrt/psrt.h csrc/examples/psrt.hpp csrc/rule/psrt_rule.h csrc/accel/psrt_accel.h '$(DESTDIR)$(PREFIX)/include/'
	install -d '$(DESTDIR)$(PREFIX)/share/psrt/examples'
	install -m 644 csrc/examples/psrt.py '$(DESTDIR)$(PREFIX)/share/psrt/'
	install -m 644 csrc/examples/*.c csrc/examples/*.cpp csrc/examples/train*.py csrc/examples/tables.yaml '$(DESTDIR)$(PREFIX)/share/psrt/examples/'
	install -m 755 bin/libpsrt.so '$(DESTDIR)$(PREFIX)/lib/libpsrt.so.1'
	ln -sf libpsrt.so.1 '$(DESTDIR)$(PREFIX)/lib/libpsrt.so'
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(ABI).0|' cmd/libpsrt/psrt.pc.in >'$(DESTDIR)$(PREFIX)/lib/pkgconfig/psrt.pc'
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(PREFIX)/share/man/man1' \
		'$(DESTDIR)$(PREFIX)/share/bash-completion/completions' \
		'$(DESTDIR)$(PREFIX)/share/zsh/site-functions' \
		'$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d'
	install -m 755 bin/psrt bin/psbench '$(DESTDIR)$(PREFIX)/bin/'
	bin/psrt man '$(DESTDIR)$(PREFIX)/share/man/man1'
	bin/psrt completion bash >'$(DESTDIR)$(PREFIX)/share/bash-completion/completions/psrt'
	bin/psrt completion zsh >'$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_psrt'
	bin/psrt completion fish >'$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/psrt.fish'

# One file a version, so a new version above is fetched and the old one is not
# mistaken for it.
.cache/bin/staticcheck-%: | deps
	@echo "fetching staticcheck $* by Go's module proxy, to check the source"
	GOBIN=$(CURDIR)/.cache/tools GOFLAGS= $(GO) install honnef.co/go/tools/cmd/staticcheck@$*
	@mv .cache/tools/staticcheck $@

.cache/bin/golangci-lint-%: | deps
	@echo "fetching golangci-lint $* by Go's module proxy, to check the source"
	GOBIN=$(CURDIR)/.cache/tools GOFLAGS= $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$*
	@mv .cache/tools/golangci-lint $@
