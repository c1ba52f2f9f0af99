package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/counters/snmp/snmptest"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
)

const (
	thousand     = 1000
	realOnes     = 20               // of them are bridges of Open vSwitch, each with an snmpd
	thousandTime = 30 * time.Second // watched, after all have begun
	thousandText = `
format: csig.fleet/v1
profile: {name: thousand, tpid: 0x88a8, interval: 1s, signals: {abw: {buckets: log-10G}}}
vlan_tpids: [0x8100]
defaults: {schedule: "@every 1s", experimental: true}
devices:
`
)

// polls are the times at which a switch was asked for its counters.
type polls struct {
	mu sync.Mutex
	at []time.Time
}

// late is by how much each poll after a time was later than the whole second, and the agent's
// place in it, at which it was due.
func (p *polls) late(after time.Time, phase time.Duration) (all []time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.at {
		if at.After(after) {
			all = append(all, time.Duration(at.Add(-phase).UnixNano()%int64(time.Second)))
		}
	}
	return all
}

// BenchmarkThousandSwitches is one controller with 1,000 switches that it polls every second, half
// of them by SNMP, and programs over OpenFlow: how late polls are, and what it takes of processor
// and memory. The switches keep flows and counters in memory, in this process, but for 20, which
// are bridges of a real Open vSwitch with an snmpd each, whose cycles are counted.
func BenchmarkThousandSwitches(b *testing.B) {
	dir, host := b.TempDir(), newHost(b, "controller")
	var text strings.Builder
	text.WriteString(thousandText)
	text.WriteString(realSwitches(b, host, dir))
	asked := make([]*polls, thousand-realOnes)
	for i := range asked {
		p := &polls{}
		asked[i] = p
		polled := func() { p.mu.Lock(); p.at = append(p.at, time.Now()); p.mu.Unlock() }
		rate, counters := rand.Uint64N(1e9), ""
		start := time.Now()
		s := &oftest.Memory{
			Serial: fmt.Sprint("memory ", i), Ports: []string{"p1", "p2"}, Speed: 10e9,
			Bytes:  func(port int) uint64 { return uint64(time.Since(start).Seconds() * float64(rate)) },
			Polled: polled,
		}
		if i%2 == 0 {
			s.Polled = nil // what it is asked for is no poll of counters
			_ = host.Do(func() error {
				a := snmptest.StartPorts(b, func(*snmptest.Exchange) { polled() }, s.Ports...)
				counters = fmt.Sprintf("counters: {source: snmp, snmp: {version: 2c, port: %d, community: {file: %s}}}, ", a.Port, filepath.Join(dir, "community"))
				return nil
			})
		}
		if err := host.Do(func() error { return s.Listen("127.0.0.1:0") }); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(s.Close)
		fmt.Fprintf(&text, "  - {name: m%d, platform: openflow, address: 127.0.0.1, management: {openflow: {port: %d, plaintext: true, ordinary_vlans: not-handed-over}, daemon: {at: here, socket: %s/m%d.sock}}, %sports: [{name: p1, speed: 10G, lm: %d}, {name: p2, action: strip}]}\n",
			i, s.Addr().Port, dir, i, counters, i%120+1)
	}
	file, state := filepath.Join(dir, "fleet.yaml"), filepath.Join(dir, "state")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	fleet, err := inventory.Load(file)
	if err != nil {
		b.Fatal(err)
	}
	configs := make([][]byte, len(fleet.Devices))
	for i := range fleet.Devices {
		if configs[i], err = inventory.Marshal(fleet.DeviceView(&fleet.Devices[i])); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		cmd := host.Command(csigController, "-i", file, "--state", state)
		log, err := os.Create(filepath.Join(dir, "log"))
		if err != nil {
			b.Fatal(err)
		}
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		for i := range fleet.Devices {
			configure(b, fleet.Devices[i].Management.Daemon.Socket, configs[i])
		}
		for _, p := range asked {
			for {
				p.mu.Lock()
				n := len(p.at)
				p.mu.Unlock()
				if n > 3 {
					break
				}
				if time.Since(begin) > 2*time.Minute {
					text, _ := os.ReadFile(log.Name())
					b.Fatalf("a switch is not polled:\n%.4000s", text)
				}
				<-time.After(10 * time.Millisecond)
			}
		}
		started := time.Now()
		before := realCycles(b, dir)
		<-time.After(thousandTime)
		after, watched := realCycles(b, dir), time.Since(started)
		var all []time.Duration
		for i, p := range asked {
			all = append(all, p.late(started, time.Duration(statusOf(b, dir, fmt.Sprint("m", i)).PhaseNS))...)
		}
		peak, ok := memory(cmd.Process.Pid, "VmHWM:")
		if !ok {
			b.Fatal("no VmHWM in /proc")
		}
		usage := func() time.Duration { return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() }
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			b.Fatal(err)
		}
		ran := time.Since(begin)
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
		slices.Sort(all)
		b.ReportMetric(float64(len(all))/thousandTime.Seconds(), "polls/s")
		b.ReportMetric((after-before)/watched.Seconds(), "real-cycles/s")
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1e3, "ms-late-p50")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1e3, "ms-late-p99")
		b.ReportMetric(float64(all[len(all)-1].Microseconds())/1e3, "ms-late-max")
		b.ReportMetric(usage().Seconds()/ran.Seconds(), "cores")
		b.ReportMetric(peak, "MiB-peak")
		b.ReportMetric(started.Sub(begin).Seconds(), "s-start")
	}
	b.ReportMetric(0, "ns/op")
}

// realSwitches starts bridges of Open vSwitch, and an snmpd for each, and is their part of the
// fleet file. net-snmp keeps its table for 3 s, so that their interval is longer.
func realSwitches(b *testing.B, host *fabric.Node, dir string) string {
	b.Helper()
	sw := ovstest.Start(b, inNode(host))
	community := filepath.Join(dir, "community")
	if err := os.WriteFile(community, []byte("public\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	var text strings.Builder
	for i := range realOnes {
		bridge, snmp, of := fmt.Sprint("r", i), uint16(11000+i), 12000+i
		sw.AddBridge(bridge)
		for n := 1; n <= 2; n++ {
			port := fmt.Sprintf("r%dp%d", i, n)
			sw.Vsctl("add-port", bridge, port, "--", "set", "interface", port, "type=internal", fmt.Sprintf("ofport_request=%d", n))
			exits(b, 0, host.Command("ip", "link", "set", "dev", port, "up"))
		}
		sw.Vsctl("set-controller", bridge, fmt.Sprintf("ptcp:%d:127.0.0.1", of), "--", "set-fail-mode", bridge, "secure")
		sw.Ofctl("-O", "OpenFlow13", "add-flow", bridge, "table=0,priority=10,dl_dst=02:00:00:00:00:01,actions=write_metadata:1/0xfff,goto_table:10")
		startSnmpd(b, host, snmp, nil, "")
		fmt.Fprintf(&text, "  - {name: r%d, platform: openflow, interval: 6s, address: 127.0.0.1, management: {openflow: {port: %d, plaintext: true, ordinary_vlans: not-handed-over}, daemon: {at: here, socket: %s/r%d.sock}}, counters: {source: snmp, snmp: {version: 2c, port: %d, community: {file: %s}}}, ports: [{name: r%dp1, speed: 10G, lm: %d}, {name: r%dp2, action: strip}]}\n",
			i, of, dir, i, snmp, community, i, i+1, i)
	}
	return text.String()
}

// realCycles is how many cycles without an error the agents of these have completed.
func realCycles(b *testing.B, dir string) (n float64) {
	b.Helper()
	for i := range realOnes {
		s := statusOf(b, dir, fmt.Sprint("r", i))
		n += float64(s.Cycle.Count) - float64(s.Cycle.Failed)
	}
	return n
}

func statusOf(b *testing.B, dir, device string) *api.Status {
	b.Helper()
	c := api.NewClient(filepath.Join(dir, device+".sock"))
	defer c.Close()
	s, err := c.Status(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// configure gives an agent its configuration, as csig apply does, as soon as it listens.
func configure(b testing.TB, socket string, config []byte) {
	b.Helper()
	c := api.NewClient(socket)
	defer c.Close()
	for end := time.Now().Add(patience); ; {
		err := c.Configure(b.Context(), config)
		if err == nil {
			return
		}
		if !errors.Is(err, api.ErrNoAgent) && !strings.Contains(err.Error(), "this daemon is starting") || time.Now().After(end) {
			b.Fatal(err)
		}
		<-time.After(10 * time.Millisecond)
	}
}
