package vrp

import (
	"context"
	"sync"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/vrp/vrptest"
	"github.com/csig-agent/csig/vlanrules"
)

// bench is a fake switch without a data plane, and its driver.
type bench struct {
	*vrptest.Switch
	platform string
	p1, p2   string // ports
	server   *clitest.Server
	driver   *Driver

	mu   sync.Mutex     // guards full: the switch has a goroutine of its own
	full map[string]int // rules of each port that hardware takes
}

// capacity is how many rules of a port hardware takes; 0: all.
func (b *bench) capacity(port string, rules int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full[port] = rules
}

func newBench(t testing.TB, platform string, change func(*Config)) *bench {
	t.Helper()
	b := &bench{platform: platform, p1: "XGigabitEthernet0/0/1", p2: "XGigabitEthernet0/0/2", full: map[string]int{}}
	if platform == SSeries {
		b.Switch = vrptest.New("HUAWEI", b.p1, b.p2)
	} else {
		b.p1, b.p2 = "100GE1/0/1", "100GE1/0/2"
		b.Switch = vrptest.NewCloudEngine("HUAWEI", b.p1, b.p2)
		b.Type("traffic-policy atomic-update-mode")
	}
	b.Changed = func(list []vrptest.Port) []int {
		b.mu.Lock()
		defer b.mu.Unlock()
		held := make([]int, len(list))
		for i := range list {
			if held[i] = len(list[i].Outbound); b.full[list[i].Name] > 0 {
				held[i] = min(held[i], b.full[list[i].Name])
			}
		}
		return held
	}
	b.server = clitest.InMemory(t, b.Shell)
	cfg := Config{Platform: platform, Updates: true, Dial: func(ctx context.Context) (qos.Session, error) {
		return Dial(ctx, platform, ssh.Config{Address: b.server.Address, Login: b.server.Login, Dial: b.server.Dial}, nil)
	}}
	if change != nil {
		change(&cfg)
	}
	b.driver = Open(cfg)
	t.Cleanup(func() { b.driver.Close() })
	return b
}

// both runs a test on either platform.
func both(t *testing.T, test func(t *testing.T, platform string)) {
	t.Parallel()
	for _, platform := range []string{SSeries, CloudEngine} {
		clitest.Run(t, platform, func(t *testing.T) { test(t, platform) })
	}
}

// plain is a setup that updates both signals at these ports.
func plain(names ...string) vendors.Setup {
	s := vendors.Setup{TPID: 0x9100, Signals: []quantize.Signal{quantize.MinABW, quantize.MaxPD}, OnStale: inventory.Conservative}
	for _, name := range names {
		s.Ports = append(s.Ports, vendors.PortSetup{Port: name, Action: vlanrules.Update})
	}
	return s
}

// to is an update of ports.
func to(s uint8, ports ...string) (list []vendors.PortUpdate) {
	for _, port := range ports {
		list = append(list, vendors.PortUpdate{Port: port, Intents: []vlanrules.Intent{
			{Signal: quantize.MinABW, Action: vlanrules.Update, S: s, LM: 5}, {Signal: quantize.MaxPD, Action: vlanrules.Update, S: s, LM: 5},
		}})
	}
	return list
}
