package qos

import (
	"fmt"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
)

// TestNames: names are read back as what they were made of, fit, and no other name is csig's.
func TestNames(t *testing.T) {
	for _, at := range []Position{Inner, Outer} {
		for _, stale := range []inventory.OnStale{inventory.Conservative, inventory.StalePassthrough} {
			s := vendors.Setup{TPID: 0xffff, Signals: quantize.Signals[:], OnStale: stale}
			name := RecordName(&s, at)
			got, where, ok := ParseRecord(name)
			if !ok || where != at || fmt.Sprint(got) != fmt.Sprint(s) || len(name) > MaxName {
				t.Errorf("%s: %+v %c %v", name, got, where, ok)
			}
		}
		r := Rule{At: at, PCP: 7, First: 1000, Last: 4094, Bank: 'b'}
		if got, ok := ParseClass(r.Class()); !ok || got != r || len(r.Class()) > MaxName {
			t.Errorf("%s: %+v %v", r.Class(), got, ok)
		}
		x := Value{At: at, VID: 4094, Bank: 'a'}
		if got, ok := ParseBehavior(x.Behavior()); !ok || got != x || len(x.Behavior()) > MaxName {
			t.Errorf("%s: %+v %v", x.Behavior(), got, ok)
		}
	}
	f := Found{At: Outer, Was: 0x8100, Now: 0x9100, Port: HashOf("XGigabitEthernet0/0/1")}
	if got, ok := ParseFound(f.Behavior()); !ok || got != f || len(f.Behavior()) > MaxName {
		t.Errorf("%s: %+v %v", f.Behavior(), got, ok)
	}
	for _, foreign := range []string{"", "csig-", "csig-x0-1-2a", "csig-i0-1-2", "csig-i0-01-2a", "csig-i0-1-2c", "csig-setup-9900-5-c-x", "csig-i", "csig-setup-", "csig-i12x", "csig-i12", "csig-was-i8100-9100-0000000001", "csig-was-o8100-9100-1"} {
		_, class := ParseClass(foreign)
		_, behavior := ParseBehavior(foreign)
		_, _, record := ParseRecord(foreign)
		_, found := ParseFound(foreign)
		if class || behavior || record || found {
			t.Errorf("%s is csig's", foreign)
		}
	}
	for name, ok := range map[string]bool{"100GE1/0/1": true, "XGigabitEthernet0/0/48": true, "": false, "a b": false, "a;b": false, "12345678901234567890123456x": false} {
		if (PortName(name, "x") == "") != ok {
			t.Errorf("%q: %s", name, PortName(name, "x"))
		}
	}
}
