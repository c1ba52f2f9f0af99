# make demo   run CSIG end to end here, on real kernel switches (needs only Go)
# make test   everything that must hold, with the race detector
# make long   the tests that take longer: those named TestLong…
# make chaos FOR=30m SEED=7   what goes wrong in years, in an order that the seed gives
# make lint   go vet and the linter; make bench the benchmarks; make fuzz a short fuzzing;
#             make mutants what the tests do not notice (15 minutes, not in CI)
# make sai-check SAI=DIR   what vendors/sai uses against the headers of a checkout of SAI
# make generate   the BPF object again from its source; make generated fails where it differs
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
LINT    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
SUM     := gotest.tools/gotestsum@v1.13.0
# The Debian packages that the tests use as peers; debootstrap makes the root that csig's own
# packages are installed in. Chromium runs the tests of the page, Prometheus those of the metrics,
# Podman with runc the container.
PEERS   := nftables iproute2 ethtool tshark snmpd snmp openssh-server openvswitch-switch redis-server sudo busybox chromium prometheus debootstrap lldpd podman runc

# What makes the committed BPF object: Debian 12's compiler, by its version, so that the
# same source is the same bytes.
CLANG := clang-14 llvm-14

export CGO_ENABLED ?= 0

.PHONY: build demo test long chaos peers vet lint bench fuzz mutants sai-check release packages clean generate generated
build:
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/csig ./cmd/csig-controller

demo: build
	./bin/csig demo

# Packages that measure real time, on the kernel or against real peers: one at
# a time, so that they do not measure each other. Those tests of theirs that mostly
# wait run three at a time.
KERNEL := ./integration/... ./counters/fleet

# Packages that drive real switches, and mostly wait for them: three at a time, the slowest first, and
# four tests of each.
SWITCHES := ./qualify/... ./vendors/ebpf ./vendors/openflow/... ./vendors/ovs ./vendors/linux

# The rule compiler and the simulator of refreshes start no goroutine, and the race detector makes
# their exhaustive tests take ten times as long: it watches the compiler's quick ones.
PURE := ./vlanrules/... ./counters/refreshtest

# So are these of the command, which read and print, of the fleet file, which read huge
# and odd ones, of drivers, which send every tag or make every change, one at a time, and of
# clients, which read what is far too long.
RULES := ./cmd/csig ./inventory ./vendors/sonic ./vendors/comware ./vendors/eos ./vendors/vrp ./vendors/nxos ./vendors/iosxr ./vendors/junos ./agent/api ./counters/snmp
LONG  := TestSetupsInAnyOrder|TestBetweenLines|TestEveryTag|TestQualify$$|TestDocs|TestDocLinks|TestMixedUplinks|TestRulesJSON|TestBriefly|TestMixedFleet|TestScripts/(rules|tag|platforms|inventory|facts|cli|assess)|TestOddFiles|TestOddPlaces|TestHostileFiles|TestAllocation|TestObjectsAreBounded|TestAssessStaysReadable|TestSlipsShowNoSecret|TestAfterABreak|TestHostileDaemon|TestTooBig|TestHostileDatabase|TestFlatRemoveUnread|TestFillIsBounded|TestNothingAboveLinear

# Tests that take minutes are named TestLong…, and have a target of their own.
LATER := ^TestLong

# go vet is a part of make lint. The race detector needs cgo, and so a C compiler. By itself it
# waits a second at the end of each process, of which the tests start hundreds.
RACE := CGO_ENABLED=1 GORACE=atexit_sleep_ms=20
FLAGS := -vet=off -timeout 9m

# A run's events, by the number of its line: make prints at its end where their time went.
SAYS = $(GO) run $(SUM) --format standard-quiet --hide-summary skipped --jsonfile bin/times/$@-$(1).json
TIMES = $(GO) run ./integration/testtimes bin/times/$@-*.json

# Tests beside kernels and peers wait for them, and another program can hold all of them up.
# Of a run in which at most three failed, without a panic or a data race, those run once more,
# alone; what failed stays in the output. The rule compiler's have no second chance.
TEST = $(SAYS) --rerun-fails=1 --rerun-fails-max-failures 3 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race --packages

# Many of the others wait for peers: three packages at a time, the slowest first.
test: peers
	@rm -rf bin/times/$@-*; mkdir -p bin/times
	$(RACE) $(call TEST,1) "./vendors/sonic ./cmd/csig ./counters/snmp ./controller/owner ./vendors/ssh $$($(GO) list ./... | grep -vxF "$$($(GO) list $(KERNEL) $(SWITCHES) $(PURE))" | xargs)" -- $(FLAGS) -race -p 3 -skip '$(LATER)|$(LONG)'
	$(call TEST,2) "$(SWITCHES) $(RULES)" -- $(FLAGS) -run '$(LONG)'
	$(call SAYS,3) -- $(FLAGS) -skip '$(LATER)' $(PURE)
	$(RACE) $(call SAYS,4) -- $(FLAGS) -race -run 'TestRandom|TestVerdicts|TestStrange' $(PURE)
	$(RACE) $(call TEST,5) "$(SWITCHES)" -- $(FLAGS) -race -count=1 -p 2 -parallel 4 -skip '$(LATER)|$(LONG)'
	$(RACE) $(call TEST,6) "$(KERNEL)" -- $(FLAGS) -race -count=1 -p 1 -parallel 3 -skip '$(LATER)'
	@$(TIMES)

# Packages that mostly wait, three at a time, the slowest first; make test has the race detector on them, and on
# integration, whose agents are processes of their own.
long: peers
	@rm -rf bin/times/$@-*; mkdir -p bin/times
	$(call TEST,1) "./vendors/ovs $(SWITCHES) $(RULES)" -- $(FLAGS) -count=1 -timeout 30m -p 3 -run '$(LATER)'
	$(RACE) $(call TEST,2) "$$($(GO) list ./... | grep -vxF "$$($(GO) list $(SWITCHES) $(RULES) $(KERNEL))" | xargs)" -- $(FLAGS) -race -count=1 -timeout 30m -p 2 -run '$(LATER)'
	CSIG_CHAOS_SUMMARY=$(CURDIR)/bin/chaos.txt $(call TEST,3) "$(KERNEL)" -- $(FLAGS) -count=1 -timeout 50m -p 1 -parallel 3 -run '$(LATER)'
	cat bin/chaos.txt
	@$(TIMES)

# ARGS=-update draws docs/chaos.svg.
FOR  ?= 30m
SEED ?= 1
ARGS ?=
chaos: peers
	CSIG_CHAOS=$(FOR) CSIG_SEED=$(SEED) $(GO) test -vet=off -count=1 -timeout 24h -v -run '^TestLongChaos$$' ./integration $(ARGS)

peers:
	./.ci/peers $(PEERS)

vet:
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...

lint: vet
	$(GO) run $(LINT) run ./...

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

generate:
	./.ci/peers $(CLANG)
	$(GO) generate ./vendors/ebpf

# The committed object and its Go code are what their source makes, byte by byte.
generated: generate
	git diff --exit-code --stat -- 'vendors/ebpf/plane_*'

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
	    GOOS=linux GOARCH=$$arch GOARM=7 $(GO) build -trimpath -ldflags '$(LDFLAGS)' \
	      -o dist/$$program-$(VERSION)-linux-$$(test $$arch = arm && echo armv7 || echo $$arch) ./cmd/$$program || exit 1; \
	  done; \
	done
	ls -l dist

# Debian packages for amd64, arm64 and armhf, the same bytes from the same commit.
packages:
	./deploy/debian/build $(VERSION)

clean:
	rm -rf bin dist
