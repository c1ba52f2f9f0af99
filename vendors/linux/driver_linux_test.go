package linux

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

const testTPID = 0x9900

func openDriver(t testing.TB, n *netns) *Driver {
	t.Helper()
	d, err := Open(Config{NetNS: n.fd})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// setupFor is a draft-00 setup of the two bandwidth signals.
func setupFor(ports ...vendors.PortSetup) vendors.Setup {
	return vendors.Setup{
		TPID:    testTPID,
		Signals: []quantize.Signal{quantize.MinABW, quantize.MinABWC},
		OnStale: inventory.Conservative,
		Ports:   ports,
	}
}

func apply(t testing.TB, d *Driver, s vendors.Setup) {
	t.Helper()
	if err := d.Apply(context.Background(), s); err != nil {
		t.Fatal(err)
	}
}

func update(t testing.TB, d *Driver, lease time.Duration, updates ...vendors.PortUpdate) vendors.UpdateResult {
	t.Helper()
	res, err := d.Update(context.Background(), updates, lease)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// bucket is an intent to update.
func bucket(sig quantize.Signal, s uint8, lm uint16) vlanrules.Intent {
	return vlanrules.Intent{Signal: sig, Action: vlanrules.Update, S: s, LM: lm}
}

var updatePort = vendors.PortSetup{Port: "swp1", Action: vlanrules.Update}

func TestOneFrame(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	d := openDriver(t, w.netns)
	apply(t, d, setupFor(updatePort))
	update(t, d, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABWC, 7, 5)}})
	w.port.send(frame(1, tag{testTPID, 1<<13 | 31<<7 | 126}))
	if got, want := w.far.receive(), frame(1, tag{testTPID, 1<<13 | 7<<7 | 5}); !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x\n%s", got, want, w.run("nft", "list", "ruleset"))
	}
}

// permanent checks that err is, or holds, a permanent error of a port that
// says why.
func permanent(t *testing.T, err error, port, why string) {
	t.Helper()
	var p *vendors.PermanentError
	if !errors.As(err, &p) {
		t.Fatalf("got %v, want a permanent error", err)
	}
	if p.Port != port || !strings.Contains(p.Error(), why) {
		t.Fatalf("got %v of port %q, want one of port %q that says %q", p, p.Port, port, why)
	}
}
