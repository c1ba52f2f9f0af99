package vrp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/qualify/qualifytest"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vendors/vrp/vrptest"
	"github.com/csig-agent/csig/vlanrules"
)

func TestMain(m *testing.M) { fabric.Tests(m, fabric.Loopback) }

const csigTPID = 0x9100 // one of those that a CloudEngine takes

// portsOf are the ports of a platform's switch.
var portsOf = map[string][]string{
	SSeries:     {"XGigabitEthernet0/0/1", "XGigabitEthernet0/0/2", "XGigabitEthernet0/0/3"},
	CloudEngine: {"100GE1/0/1", "100GE1/0/2", "100GE1/0/3"},
}

// lab is a fake switch with a data plane, and its driver.
type lab struct {
	*vrptest.Switch
	platform string
	ports    []string
	server   *clitest.Server
	plane    plane.Hardware
	driver   *Driver
}

// newLab makes one of a platform. On a CloudEngine its operator has configured that updates
// leave no gap.
func newLab(t testing.TB, platform string, p plane.Hardware) *lab {
	t.Helper()
	l := &lab{platform: platform, ports: portsOf[platform], plane: p}
	if platform == SSeries {
		l.Switch = vrptest.New("HUAWEI", l.ports...)
	} else {
		l.Switch = vrptest.NewCloudEngine("HUAWEI", l.ports...)
		l.Type("traffic-policy atomic-update-mode")
	}
	l.Changed = func(list []vrptest.Port) []int { return l.program(t, list) }
	l.server = clitest.InMemory(t, l.Shell)
	l.driver = l.open(t, 0)
	return l
}

// open opens another driver of the switch.
func (l *lab) open(t testing.TB, settle time.Duration) *Driver {
	t.Helper()
	d := Open(Config{Platform: l.platform, Updates: true, Settle: settle, Dial: func(ctx context.Context) (qos.Session, error) {
		return Dial(ctx, l.platform, ssh.Config{Address: l.server.Address, Login: l.server.Login, Dial: l.server.Dial}, nil)
	}})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// fake is a switch of a platform for the bench. Its operator has configured the TPID: the bench
// looks at tags before there is a setup, too.
func fake(platform string) func(t testing.TB) qualifytest.Fake {
	return func(t testing.TB) qualifytest.Fake {
		p := plane.New(t, len(portsOf[platform]))
		l := newLab(t, platform, p)
		for _, p := range l.ports {
			l.Type("interface "+p, "qinq protocol 9100")
		}
		return qualifytest.Fake{Plane: p, Ports: l.ports, TPID: csigTPID, Open: func() vendors.Driver { return l.open(t, 20*time.Millisecond) }}
	}
}

func TestQualify(t *testing.T) { qualifytest.Healthy(t, fake(SSeries)) }

// TestLongQualify has the bench judge the driver by all that it can, and with a table that is full.
// It finds other faults whatever the driver does: those of comware's switch.
func TestLongQualify(t *testing.T) { qualifytest.FaultyTable(t, fake(CloudEngine)) }

// TestLongGap: the bench finds the gap that an S series has by its text.
func TestLongGap(t *testing.T) {
	t.Parallel()
	p := plane.New(t, len(portsOf[SSeries]))
	l := newLab(t, SSeries, p)
	l.InGap = func() { time.Sleep(20 * time.Millisecond) } // how long is written nowhere
	qualifytest.Judged(t, qualifytest.Fake{Plane: p, Ports: l.ports, TPID: csigTPID, Open: func() vendors.Driver { return l.open(t, 20*time.Millisecond) }}, plane.Faults{}, "hitless", "change-not-hitless")
}

// program hands what a configuration means to the data plane.
func (l *lab) program(t testing.TB, list []vrptest.Port) []int {
	in, err := vrptest.Program(l.plane, list)
	if err != nil {
		t.Error(err)
	}
	return in
}

// exchange sends a frame for each tag out of a port, and returns the tags they leave with.
func (l *lab) exchange(t testing.TB, port int, tags []uint16) []uint16 {
	t.Helper()
	stacks, out := make([][]plane.Tag, len(tags)), make([]uint16, len(tags))
	for i, tci := range tags {
		stacks[i] = []plane.Tag{{TPID: csigTPID, TCI: tci}}
	}
	for i, got := range l.plane.Exchange(t, port, stacks, nil) {
		if len(got) != 1 || got[0].TPID != csigTPID {
			t.Fatalf("port %d: %04x leaves as %04x", port, stacks[i], got)
		}
		out[i] = got[0].TCI
	}
	return out
}

// model is vendorstest.Model, but for VIDs 0 and 4095, which are no classifier's.
func model(intents []vlanrules.Intent, tci uint16) uint16 {
	if vid := tci & 0xfff; vid == 0 || vid == 0xfff {
		return tci
	}
	return vendorstest.Model(quantize.Draft00, intents, tci)
}

func update(names ...string) (list []vendors.PortSetup) {
	for _, name := range names {
		list = append(list, vendors.PortSetup{Port: name, Action: vlanrules.Update})
	}
	return list
}

func setupFor(list ...vendors.PortSetup) vendors.Setup {
	return vendors.Setup{TPID: csigTPID, Signals: []quantize.Signal{quantize.MinABW, quantize.MaxPD}, OnStale: inventory.Conservative, Ports: list}
}

func intent(sig quantize.Signal, s uint8, lm uint16) vlanrules.Intent {
	return vlanrules.Intent{Signal: sig, Action: vlanrules.Update, S: s, LM: lm}
}

func (l *lab) apply(t testing.TB, s vendors.Setup) {
	t.Helper()
	if err := l.driver.Apply(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) give(t testing.TB, port string, intents ...vlanrules.Intent) vendors.UpdateResult {
	t.Helper()
	res, err := l.driver.Update(t.Context(), []vendors.PortUpdate{{Port: port, Intents: intents}}, time.Minute)
	if err != nil || !res.Leased {
		t.Fatalf("%+v, %v", res, err)
	}
	return res
}

// state is all that the switch has of csig's, but what no policy uses.
func (l *lab) state(t testing.TB) string {
	v, err := profiles[l.platform].parse(strings.Split(l.Running(), "\n"))
	if err != nil {
		t.Fatal(err)
	}
	lines := v.Records()
	for name, list := range v.Policies {
		for _, b := range list {
			lines = append(lines, fmt.Sprintf("%s %s %s %v %v", name, b.Class, b.Behavior, v.Classes[b.Class], v.Behaviors[b.Behavior]))
		}
		lines = append(lines, name)
	}
	for _, p := range v.Ports {
		lines = append(lines, fmt.Sprintf("%+v", *p))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
