package eos

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/qualify/qualifytest"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
	"github.com/csig-agent/csig/vendors/eos/eostest"
	"github.com/csig-agent/csig/vlanrules"
)

func TestMain(m *testing.M) { fabric.Tests(m, fabric.Loopback) }

// lab is a fake switch with a data plane, and its driver.
type lab struct {
	*eostest.Switch
	server *clitest.Server
	plane  plane.Hardware
	driver *Driver
}

// newLab makes one in memory.
func newLab(t testing.TB) *lab {
	t.Helper()
	l := fakeLab(t, &plane.Memory{})
	l.driver = l.open(t, forwarding)
	return l
}

// fake is a switch for the bench, which forwards between its first two ports.
func fake(t testing.TB) qualifytest.Fake {
	p := plane.New(t, len(ports))
	l := fakeLab(t, p)
	l.program(t, nil) // no command has changed anything yet
	return qualifytest.Fake{Plane: p, Ports: ports, TPID: csigTPID, Open: func() vendors.Driver {
		return l.open(t, []Forwarding{{InPort: ports[0], Port: ports[1]}, {InPort: ports[1], Port: ports[0]}})
	}}
}

func TestQualify(t *testing.T) { qualifytest.Healthy(t, fake) }

// TestLongQualify has the bench judge the driver by all that it can, and with a table that is full.
// It finds other faults whatever the driver does: those of comware's switch.
func TestLongQualify(t *testing.T) { qualifytest.FaultyTable(t, fake) }

func fakeLab(t testing.TB, p plane.Hardware) *lab {
	t.Helper()
	l := &lab{Switch: eostest.New("sw1", ports...), plane: p}
	l.Changed = func(flows []eostest.Flow) int { return l.program(t, flows) }
	l.server = clitest.InMemory(t, l.Shell)
	return l
}

// open opens a driver of the switch.
func (l *lab) open(t testing.TB, forwarding []Forwarding) *Driver {
	t.Helper()
	d := Open(Config{Updates: true, Forwarding: forwarding, Dial: func(ctx context.Context) (*cli.Session, error) {
		return Dial(ctx, ssh.Config{Address: l.server.Address, Login: l.server.Login, Dial: l.server.Dial})
	}})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// program hands flows to the data plane.
func (l *lab) program(t testing.TB, flows []eostest.Flow) int {
	n, err := eostest.Program(l.plane, csigTPID, ports, flows)
	if err != nil {
		t.Error(err)
	}
	return n
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

func (l *lab) apply(t testing.TB, s vendors.Setup) {
	t.Helper()
	if err := l.driver.Apply(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) give(t testing.TB, port string, intents ...vlanrules.Intent) {
	t.Helper()
	res, err := l.driver.Update(t.Context(), []vendors.PortUpdate{{Port: port, Intents: intents}}, time.Minute)
	if err != nil || !res.Leased {
		t.Fatalf("%+v, %v", res, err)
	}
}

// state is the running configuration; in which of csig's priorities flows are is history.
func (l *lab) state(testing.TB) string {
	var lines []string
	for line := range strings.Lines(l.Running()) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "flow csig-"); ok {
			line = "flow csig-" + name[:len(name)-1]
		}
		if !strings.HasPrefix(line, "priority 3000") {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
