package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	csigagent "github.com/csig-agent/csig/agent"
	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/openflow"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors/ovs"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

// The cadence that is kept, and for how long.
const (
	cadencePorts  = 64
	cadencePeriod = 100 * time.Millisecond
	cadenceFor    = 6 * time.Second
)

// TestLongOpenVSwitchCadence runs the agent with 64 ports and two signals each on
// a real ovs-vswitchd every 100 ms. Counters are really read, and then given the
// octets of loads that change the bucket of each signal of each port in every
// cycle. No cycle may be skipped or fail, and no lease may end.
func TestLongOpenVSwitchCadence(t *testing.T) {
	s := ovstest.Start(t, ovstest.Options{Dummy: true})
	s.AddBridge("csig")
	var text, add strings.Builder
	fmt.Fprintf(&text, `
format: csig.fleet/v1
profile: {name: cadence, tpid: 0x88a8, interval: %v, signals: {abw: {buckets: log-10G}, abwc: {buckets: log}}}
vlan_tpids: [0x8100]
devices:
  - name: s1
    local: true
    platform: ovs
    management: {ovs: {bridge: csig, run_dir: %s}}
    ports:
`, cadencePeriod, s.Dir)
	names := make([]string, cadencePorts)
	for i := range names {
		names[i] = fmt.Sprintf("swp%d", i+1)
		fmt.Fprintf(&text, "      - {name: %s, speed: 10G, lm: {abw: %d, abwc: %d}}\n", names[i], 1+i, 1+i)
		fmt.Fprintf(&add, " -- add-port csig %s -- set interface %s type=dummy", names[i], names[i])
	}
	s.Vsctl(strings.Fields(add.String())[1:]...)
	fleet, err := inventory.Parse("cadence.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	connect, done := ofp.Dialed(func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.Dir, "csig.mgmt"))
	}, ofp.Version14)
	source, err := openflow.New(openflow.Config{Switch: "bridge csig", Ports: names, Live: true, Connect: connect, Done: done})
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	driver, err := ovs.Open(ovs.Config{Bridge: "csig", RunDir: s.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Close()
	log := logrus.New()
	log.SetOutput(io.Discard)
	var (
		a                      *csigagent.Agent
		ends                   []time.Time
		read, compute, program []time.Duration
	)
	a, err = csigagent.New(csigagent.Config{
		Profile: fleet.Profile, Policy: fleet.Policy, Device: fleet.Devices[0],
		Source: &loaded{Source: source}, Driver: driver, Log: logrus.NewEntry(log),
		OnCycle: func() {
			c := a.Status().Cycle
			ends = append(ends, time.Now())
			read, compute, program = append(read, time.Duration(c.ReadNS)), append(compute, time.Duration(c.ComputeNS)), append(program, time.Duration(c.ProgramNS))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	// What else this machine does is not what is measured.
	pid := switchPID(t, s)
	prefer(t, os.Getpid(), -15)
	defer prefer(t, os.Getpid(), 0)
	prefer(t, pid, -15)
	own, theirs := ownCPU(t), cpuOf(t, pid)
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(cadenceFor, cancel).Stop()
	if err := a.Run(ctx); err != nil {
		t.Fatal(err)
	}
	own, theirs = ownCPU(t)-own, cpuOf(t, pid)-theirs
	st := a.Status()
	c := st.Cycle
	late := 0
	for i := 1; i < len(ends); i++ {
		if ends[i].Sub(ends[i-1]) > cadencePeriod*3/2 {
			late++
		}
	}
	perCycle := int(c.Operations / max(1, c.Count))
	t.Logf("%d ports, 2 signals, every %v for %v: %d cycles, %d late by more than half of it, %d skipped, %d failed, %d leases missed, %d flows changed a cycle",
		cadencePorts, cadencePeriod, cadenceFor, c.Count, late, c.Skipped, c.Failed, c.Lapses, perCycle)
	bare := bareBundles(t, s, perCycle)
	for _, l := range []struct {
		what string
		all  []time.Duration
	}{{"read", read}, {"compute", compute}, {"program", program}, {"the bare bundle of as many flows", bare}} {
		slices.Sort(l.all)
		n := len(l.all)
		t.Logf("%-33s median %v, p99 %v", l.what, l.all[n/2].Round(10*time.Microsecond), l.all[n*99/100].Round(10*time.Microsecond))
	}
	t.Logf("CPU: agent %.1f %%, ovs-vswitchd %.1f %% of a core", 100*own.Seconds()/cadenceFor.Seconds(), 100*theirs.Seconds()/cadenceFor.Seconds())
	// Where the bare bundle stalls for as long, it is the machine that skips.
	stalls, ticks := uint64(0), uint64(cadenceFor/cadencePeriod)
	if bare[len(bare)*99/100] > cadencePeriod/4 {
		stalls = ticks / 10
	}
	if c.Count+stalls+3 < ticks || c.Skipped > stalls+3 || c.Failed+c.Lapses > 0 {
		t.Errorf("%d cycles of %d, %d skipped, %d failed (%s), %d leases missed", c.Count, ticks, c.Skipped, c.Failed, c.LastError, c.Lapses)
	}
	if perCycle < cadencePorts {
		t.Errorf("%d flows change a cycle, fewer than there are ports: the buckets stand still", perCycle)
	}
}

// loaded is a source whose ports carry loads of the test's.
type loaded struct {
	counters.Source
	cycle  int
	last   time.Time
	octets [cadencePorts]float64
}

// Read reads the real counters, at their cost, and replaces what they count.
func (l *loaded) Read(ctx context.Context, dst []counters.Sample) ([]counters.Sample, error) {
	out, err := l.Source.Read(ctx, dst)
	if err != nil || len(out) == 0 {
		return out, err
	}
	since := out[0].At.Sub(l.last).Seconds()
	if l.last.IsZero() {
		since = 0
	}
	l.last = out[0].At
	l.cycle++
	for i := range out {
		load := []float64{0.1, 0.6}[(l.cycle+i)%2] * 10e9 / 8 // bytes a second
		l.octets[i] += load * since
		out[i].Octets, out[i].Packets, out[i].Up = uint64(l.octets[i]), 0, true
	}
	return out, nil
}

// bareBundles times bundles of so many changes of flows as csig's, without csig.
func bareBundles(t *testing.T, s *ovstest.Switch, flows int) []time.Duration {
	t.Helper()
	c, err := net.Dial("unix", filepath.Join(s.Dir, "csig.mgmt"))
	if err != nil {
		t.Fatal(err)
	}
	of, err := ofp.NewConn(t.Context(), c, ofp.Version14)
	if err != nil {
		t.Fatal(err)
	}
	defer of.Close()
	var took []time.Duration
	for round := range uint32(100) {
		var mods []ofp.Mod
		for i := range flows {
			m := ofp.Match{VID: ofp.VLANPresent, VIDMask: ofp.VLANPresent}
			m.Regs[15] = ofp.Exactly(uint32(i))
			mods = append(mods, ofp.Mod{Kind: ofp.Add, Flow: &ofp.Flow{Table: 90, Priority: 7, Match: m, Actions: ofp.Actions(nil).Load(14, round).Resubmit(91)}})
		}
		start := time.Now()
		if err := of.Commit(t.Context(), mods); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(start))
		<-time.After(10 * time.Millisecond) // what the switch does afterwards is not the next one's
	}
	return took
}

func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// switchPID is the process of ovs-vswitchd.
func switchPID(t *testing.T, s *ovstest.Switch) int {
	t.Helper()
	text := readFile(t, filepath.Join(s.Dir, "vs.pid"))
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// prefer gives every thread of a process a nice value.
func prefer(t *testing.T, pid, nice int) {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if id, err := strconv.Atoi(task.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, nice) // it may have ended
		}
	}
}

// cpuOf is the time that a process has used.
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat := readFile(t, fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] { // utime and stime (proc_pid_stat(5)), in hundredths
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
