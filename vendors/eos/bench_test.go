package eos

import (
	"context"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/eos/eostest"
	"github.com/csig-agent/csig/vlanrules"
)

const csigTPID = 0x9900

var (
	ports      = []string{"Ethernet1", "Ethernet2", "Ethernet3/1"}
	forwarding = []Forwarding{
		{InPort: ports[0], EthDst: "02:00:00:00:00:02", Port: ports[1]},
		{InPort: ports[0], EthDst: "02:00:00:00:00:03", Port: ports[2]},
	}
)

// bench is a fake switch without a data plane, and its driver.
type bench struct {
	*eostest.Switch
	server *clitest.Server
	driver *Driver
}

func newBench(t testing.TB, change func(*Config)) *bench {
	t.Helper()
	b := &bench{Switch: eostest.New("sw1", ports...)}
	b.server = clitest.InMemory(t, b.Shell)
	cfg := Config{Updates: true, Forwarding: forwarding}
	cfg.Dial = func(ctx context.Context) (*cli.Session, error) {
		return Dial(ctx, ssh.Config{Address: b.server.Address, Login: b.server.Login, Dial: b.server.Dial})
	}
	if change != nil {
		change(&cfg)
	}
	b.driver = Open(cfg)
	t.Cleanup(func() { b.driver.Close() })
	return b
}

// setupFor is a setup that updates both signals at these ports.
func setupFor(names ...string) vendors.Setup {
	s := vendors.Setup{TPID: csigTPID, Signals: []quantize.Signal{quantize.MinABW, quantize.MaxPD}, OnStale: inventory.Conservative}
	for _, name := range names {
		s.Ports = append(s.Ports, vendors.PortSetup{Port: name, Action: vlanrules.Update})
	}
	return s
}

func intent(sig quantize.Signal, s uint8, lm uint16) vlanrules.Intent {
	return vlanrules.Intent{Signal: sig, Action: vlanrules.Update, S: s, LM: lm}
}

// to is an update of one port.
func to(port string, s uint8) []vendors.PortUpdate {
	return []vendors.PortUpdate{{Port: port, Intents: []vlanrules.Intent{intent(quantize.MinABW, s, 5), intent(quantize.MaxPD, s, 5)}}}
}

func (b *bench) apply(t testing.TB, s vendors.Setup) {
	t.Helper()
	if err := b.driver.Apply(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}
