package comware

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/memnet"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/qualify/qualifytest"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

func TestMain(m *testing.M) { fabric.Tests(m, fabric.Loopback) }

const csigTPID = 0x9900

var ports = []string{"Ten-GigabitEthernet1/0/1", "Ten-GigabitEthernet1/0/2", "Ten-GigabitEthernet1/0/3"}

// lab is a fake switch with a data plane, and its driver.
type lab struct {
	*comwaretest.Switch
	server  *clitest.Server
	plane   plane.Hardware
	driver  *Driver
	at      qos.Position
	network memnet.Packets // that probes go by
}

// newLab makes one whose CSIG tag is at a qos.Position. Its operator has configured the TPID.
func newLab(t testing.TB, at qos.Position, p plane.Hardware) *lab {
	t.Helper()
	l := &lab{Switch: comwaretest.New("H3C", ports...), plane: p, at: at}
	l.Changed = func(list []comwaretest.Port) []int { return l.program(t, list) }
	if at == qos.Inner {
		l.Type("qinq ethernet-type customer-tag 9900")
	} else {
		for _, p := range ports {
			l.Type("interface "+p, "qinq ethernet-type service-tag 9900")
		}
	}
	l.server = clitest.InMemory(t, l.Shell)
	l.driver = l.open(t)
	return l
}

func (l *lab) listen(_, address string) (net.PacketConn, error) { return l.network.Listen(address) }

// open opens another driver of the switch.
func (l *lab) open(t testing.TB) *Driver {
	t.Helper()
	d := Open(Config{Outer: l.at == qos.Outer, Updates: true, Listen: l.listen, Dial: func(ctx context.Context) (qos.Session, error) {
		return Dial(ctx, ssh.Config{Address: l.server.Address, Login: l.server.Login, Dial: l.server.Dial}, nil)
	}})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// fake is a switch whose CSIG tag is the qos.Outer one, for the bench.
func fake(t testing.TB) qualifytest.Fake {
	p := plane.New(t, len(ports))
	l := newLab(t, qos.Outer, p)
	return qualifytest.Fake{Plane: p, Ports: ports, TPID: csigTPID, Open: func() vendors.Driver { return l.open(t) }}
}

func TestQualify(t *testing.T) { qualifytest.Healthy(t, fake) }

func TestLongQualify(t *testing.T) { qualifytest.Faulty(t, fake) }

// program hands what a configuration means to the data plane.
func (l *lab) program(t testing.TB, list []comwaretest.Port) []int {
	var out []plane.Port
	for _, p := range list {
		hw := plane.Port{Outer: p.Service, Inner: l.Customer, Longest: min(p.Longest, list[0].Longest)}
		for _, r := range p.Outbound {
			rule := plane.Rule{OuterPCP: r.ServicePCP, InnerPCP: r.CustomerPCP, SetOuter: r.RemarkService, SetInner: r.RemarkCustomer}
			for _, v := range r.Service {
				rule.Outer = append(rule.Outer, plane.Range(v))
			}
			for _, v := range r.Customer {
				rule.Inner = append(rule.Inner, plane.Range(v))
			}
			hw.Rules = append(hw.Rules, rule)
		}
		out = append(out, hw)
	}
	in, err := l.plane.Program(out)
	if err != nil {
		t.Error(err)
	}
	return in
}

// stack is a frame's tags, with the CSIG tag where this switch expects it.
func (l *lab) stack(tci uint16) []plane.Tag {
	tag := plane.Tag{TPID: csigTPID, TCI: tci}
	if l.at == qos.Outer {
		return []plane.Tag{tag}
	}
	return []plane.Tag{{TPID: qos.DefaultTPID, TCI: 0xa064}, tag}
}

// exchange sends a frame for each tag out of a port, and returns the tags they leave with.
func (l *lab) exchange(t testing.TB, port int, tags []uint16) []uint16 {
	t.Helper()
	stacks, out := make([][]plane.Tag, len(tags)), make([]uint16, len(tags))
	for i, tci := range tags {
		stacks[i] = l.stack(tci)
	}
	for i, got := range l.plane.Exchange(t, port, stacks, nil) {
		n := len(stacks[i])
		if len(got) != n || n == 2 && got[0] != stacks[i][0] || got[n-1].TPID != csigTPID {
			t.Fatalf("port %d: %04x leaves as %04x", port, stacks[i], got)
		}
		out[i] = got[n-1].TCI
	}
	return out
}

// model is vendorstest.Model, but for VIDs 0 and 4095, which are no class's.
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
	v, err := parse(strings.Split(l.Running(), "\n"))
	if err != nil {
		t.Fatal(err)
	}
	lines := v.Records()
	for name, list := range v.Policies {
		for i, p := range list {
			lines = append(lines, fmt.Sprintf("%s %d %v %v %v", name, i, p, v.Classes[p.Class], v.Behaviors[p.Behavior]))
		}
		lines = append(lines, name)
	}
	for _, p := range v.Ports {
		lines = append(lines, fmt.Sprintf("%+v", *p))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
