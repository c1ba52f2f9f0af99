package openflow

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// operationsOf records what updates of a switch in memory send, faults included.
func operationsOf(t *testing.T, name string, b oftest.Bench, p *oftest.Proxy, setup vendors.Setup, open func() vendors.Driver) {
	t.Helper()
	m, is := b.(*oftest.Memory)
	if !is {
		t.Fatal("it is not in memory")
	}
	var mu sync.Mutex
	var lines []string
	refuses := func(oftest.Message) bool { return false }
	p.Set(func(f *oftest.Faults) {
		f.Refuse = func(message oftest.Message) *oftest.Refusal {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, m.Text(message))
			if refuses(message) {
				return &oftest.Refusal{Type: 5, Code: 1} // a full table
			}
			return nil
		}
	})
	when := func(is func(oftest.Message) bool) {
		mu.Lock()
		defer mu.Unlock()
		refuses = is
	}
	healthy := func() { when(func(oftest.Message) bool { return false }) }
	vendorstest.Operations(t, &vendorstest.Walk{
		Name: name, Setup: setup, Open: open,
		Sent: func() []string {
			mu.Lock()
			defer mu.Unlock()
			sent := lines
			lines = nil
			return sent
		},
		Faults: []vendorstest.Fault{
			{Name: "its flows are refused", Begin: func() { when(func(m oftest.Message) bool { return m.Type() == oftest.TypeFlowMod }) }, End: healthy},
			{Name: "another controller takes its flows", Begin: func() { b.Flow("del-flows", "cookie=0x43/0x0") }},
			{Name: "the connection is lost", Begin: func() {
				p.Cut()
				synctest.Wait() // csig has seen it
			}},
			{Name: "a port leaves", Begin: func() { b.RemovePort("p2") }, End: func() { b.AddPort("p2", 2) }},
		},
	})
}

// TestOperations is of a switch of several tables.
func TestOperations(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := newLab(t, 3, oftest.Faults{})
		operationsOf(t, "operations", l.Bench, l.proxy, setupFor(ports(vlanrules.Update, "p2", "p3")...),
			func() vendors.Driver { return l.open(t, Config{OrdinaryVLANs: NotHandedOver}) })
	})
}

// TestOperationsFlat is of one with one table, and of OF-DPA's.
func TestOperationsFlat(t *testing.T) {
	for name, ofdpa := range map[string]bool{"operations-flat": false, "operations-ofdpa": true} {
		run(t, name, func(t *testing.T) {
			l := newFlatLab(t, ofdpa, nil)
			operationsOf(t, name, l.Bench, l.proxy, flatWant(inventory.Conservative, "p1", "p2"), func() vendors.Driver { return l.open(t, nil) })
		})
	}
}
