# make demo   run CSIG end to end here, on real kernel switches (needs only Go)
# make test   everything that must hold, with the race detector
# make long   the tests that take longer: those named TestLong…
# make steady N=10 QUOTA=140   make test so often, with so many percent of one processor (as root)
# make chaos FOR=30m SEED=7   what goes wrong in years, in an order that the seed gives
# make lint   the linter, and whether csig compiles for macOS; make bench the benchmarks; make fuzz a short fuzzing;
#             make mutants what the tests do not notice (15 minutes, not in CI)
# make sai-check SAI=DIR   what vendors/sai uses against the headers of a checkout of SAI
# make generate   the BPF objects again from their sources; make generated fails where it differs
GO      ?= go
VERSION ?= $(shell ./deploy/git-version 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
LINT    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
SUM     := gotest.tools/gotestsum@v1.13.0
# The Debian packages that the tests use as peers; debootstrap makes the root that csig's own
# packages are installed in. Chromium runs the tests of the page, Prometheus with
# Alertmanager those of the metrics and alerts, Podman with runc the container.
PEERS   := nftables iproute2 iputils-ping ethtool tshark snmpd snmp openssh-server openssl openvswitch-switch redis-server sudo busybox chromium prometheus prometheus-alertmanager debootstrap lldpd podman runc

# What makes the committed BPF objects: Debian 12's compiler, by its version, so that the
# same source is the same bytes.
CLANG := clang-14 llvm-14

# The same for all commands, which then share what they build.
export CGO_ENABLED ?= 0
export GOFLAGS     ?= -trimpath

.PHONY: build demo test long steady chaos pictures peers vet lint bench fuzz mutants sai-check release packages clean generate generated
build:
	$(GO) build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/csig ./cmd/csig-controller

# Without /proc Go fails first, and its message does not name the cause.
demo:
	@test -e /proc/self/exe || { echo 'make demo: /proc is not mounted here, without which neither Go nor csig runs: mount -t proc proc /proc' >&2; exit 2; }
	@$(MAKE) --no-print-directory build
	./bin/csig demo

# The race detector needs cgo, and so a C compiler. By itself it waits a second at the end of each
# process, of which the tests start hundreds. go vet is a part of make lint.
RACE := CGO_ENABLED=1 GORACE=atexit_sleep_ms=20
TEST := $(GO) test -json -vet=off -count=1 -timeout 40m

# The events of a run go to a file. At the end make prints from it where the time went and what failed.
EVENTS = bin/times/$@.json
SAYS   = mkdir -p bin/times && $(GO) run $(SUM) --format pkgname --format-icons text --format-hide-empty-pkg --hide-summary skipped,failed,output --jsonfile $(EVENTS) --raw-command -- env
TIMES  = $(GO) run ./integration/testtimes $(EVENTS)

test: peers
	@echo "each package is named when its tests are through; the whole takes about ten minutes on two processors"
	$(SAYS) $(RACE) $(TEST) -race -skip '^TestLong' ./...; failed=$$?; $(TIMES); exit $$failed

# Without the race detector, which make test has on all packages. The tests of integration are by themselves: they see
# what is late, and wait for most of their time.
long: peers
	$(SAYS) CSIG_CHAOS_SUMMARY=$(CURDIR)/bin/chaos.txt sh -c '\
	  $(TEST) -run ^TestLong $$($(GO) list ./... | grep -v /integration$$); failed=$$?; \
	  $(TEST) -run ^TestLong ./integration && exit $$failed'; failed=$$?; cat bin/chaos.txt; $(TIMES); exit $$failed

# make test N times in a row with QUOTA percent of one processor: no test fails, only the time grows.
N     ?= 10
QUOTA ?= 140
steady: peers
	./.ci/steady $(N) $(QUOTA)

# ARGS=-update draws docs/chaos.svg.
FOR  ?= 30m
SEED ?= 1
ARGS ?=
chaos: peers
	CSIG_CHAOS=$(FOR) CSIG_SEED=$(SEED) $(GO) test -vet=off -count=1 -timeout 24h -v -run '^TestLongChaos$$' ./integration $(ARGS)

# The pages of fleets whose load moves, in a real Chromium: docs/page, and what is on them.
pictures: peers
	$(GO) test -vet=off -count=1 -timeout 20m -v -run '^TestLongPictures$$' ./web -args -update

peers:
	./.ci/peers $(PEERS)

# The linter has go vet for this system. On macOS people run csig, against switches elsewhere; tests take Linux.
vet:
	GOOS=darwin $(GO) vet ./cmd/csig

lint: vet
	$(GO) run $(LINT) run ./...

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

generate:
	./.ci/peers $(CLANG)
	$(GO) generate ./vendors/ebpf ./hosts/tcp

# The committed objects and their Go code are what their sources make, byte by byte.
generated: generate
	git diff --exit-code --stat -- 'vendors/ebpf/plane_*' 'hosts/tcp/*_bpfel.*'

INPUTS ?= 100000
fuzz:
	./.ci/fuzz $(INPUTS)

# Changes the code at random, and reports what no test of the package notices.
MUTANTSFOR ?= 15m
mutants: peers
	$(GO) run ./integration/mutate -for $(MUTANTSFOR)

# The result for SAI 1.18.1 is vendors/sai/saicheck/testdata/sai-1.18.1.txt.
SAI ?=
sai-check:
	@test -n "$(SAI)" || { echo 'make sai-check SAI=DIR: name a checkout of opencomputeproject/SAI'; exit 2; }
	@$(GO) run ./vendors/sai/saicheck $(SAI)

release:
	for arch in amd64 arm64 arm; do \
	  for program in csig csig-controller; do \
	    GOOS=linux GOARCH=$$arch GOARM=7 $(GO) build -ldflags '$(LDFLAGS)' \
	      -o dist/$$program-$(VERSION)-linux-$$(test $$arch = arm && echo armv7 || echo $$arch) ./cmd/$$program || exit 1; \
	  done; \
	done
	ls -l dist

# Debian packages for amd64, arm64 and armhf, the same bytes from the same commit.
packages:
	./deploy/debian/build $(VERSION)

clean:
	rm -rf bin dist
