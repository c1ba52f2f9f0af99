package ovs

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vlanrules"
)

// tag is one L2 tag.
type tag struct{ tpid, tci uint16 }

// frame is one with tags in front of an IPv4 header.
func frame(seq uint32, tags ...tag) []byte {
	b := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1}
	for _, t := range tags {
		b = binary.BigEndian.AppendUint16(b, t.tpid)
		b = binary.BigEndian.AppendUint16(b, t.tci)
	}
	b = append(b, 0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 9, 0, 9, 0, 26, 0, 0)
	b = binary.BigEndian.AppendUint32(b, seq)
	return append(b, make([]byte, 14)...)
}

// seqOf is the number that frame gave one, whatever tags it has.
func seqOf(b []byte) uint32 { return binary.BigEndian.Uint32(b[len(b)-18:]) }

// soon is how long what must come may take on a busy machine.
const soon = 30 * time.Second

// sandwich is a bridge of csig's between a port and a bridge that switches.
type sandwich struct {
	*ovstest.Switch
	in, out *ovstest.Wire // at the switching bridge, and at the port
	driver  *Driver
}

func newSandwich(t testing.TB) *sandwich {
	t.Helper()
	s := &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}
	s.Together(func() {
		s.AddBridge("br0")
		s.AddBridge("csig")
		s.Vsctl("set-fail-mode", "br0", "standalone")
		s.AddPatch("br0", "p-swp1", "csig", "i-swp1")
		s.Vsctl("set", "interface", "i-swp1", "external_ids:csig-port=swp1", "ofport_request=99") // none that a test's own port asks for
		s.in, s.out = s.AddWire("br0", "h1", 1), s.AddWire("csig", "swp1", 1)
		// Whatever tags a frame has, it is bridged in one VLAN.
		for _, port := range []string{"h1", "p-swp1"} {
			s.Vsctl("set", "port", port, "vlan_mode=dot1q-tunnel", "tag=1")
		}
	})
	s.Ofctl("add-flow", "br0", "actions=NORMAL")
	s.driver = s.open(t, "csig")
	return s
}

func (s *sandwich) open(t testing.TB, bridge string) *Driver {
	t.Helper()
	return s.openBy(t, Config{Bridge: bridge})
}

func (s *sandwich) openBy(t testing.TB, cfg Config) *Driver {
	t.Helper()
	d := s.opened(t, cfg)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// opened is a driver of this switch, which the caller closes.
func (s *sandwich) opened(t testing.TB, cfg Config) *Driver {
	t.Helper()
	cfg.RunDir = s.Dir
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	d.glanceWait = soon // tests look once, however busy the machine is
	return d
}

func setupFor(layout quantize.Layout, ports ...vendors.PortSetup) vendors.Setup {
	return vendors.Setup{TPID: tpidCSIG, Layout: layout, Signals: []quantize.Signal{quantize.MinABW, quantize.MinABWC, quantize.MaxPD}, OnStale: inventory.Conservative, Ports: ports}
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
	if !res.Leased {
		t.Fatal("not leased")
	}
	return res
}

func bucket(sig quantize.Signal, s uint8, lm uint16) vlanrules.Intent {
	return vlanrules.Intent{Signal: sig, Action: vlanrules.Update, S: s, LM: lm}
}

var swp1 = vendors.PortSetup{Port: "swp1", Action: vlanrules.Update}

func TestOneFrame(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABWC, 7, 5)}})
	for _, tc := range []struct {
		name string
		sent []tag
		want []tag
	}{
		{"worse here", []tag{{tpidCSIG, 1<<13 | 31<<7 | 126}}, []tag{{tpidCSIG, 1<<13 | 7<<7 | 5}}},
		{"better here", []tag{{tpidCSIG, 1<<13 | 6<<7 | 126}}, []tag{{tpidCSIG, 1<<13 | 6<<7 | 126}}},
		{"a VLAN", []tag{{tpidVLAN, 1<<13 | 31<<7 | 126}}, []tag{{tpidVLAN, 1<<13 | 31<<7 | 126}}},
		{"behind a VLAN", []tag{{tpidVLAN, 5<<13 | 77}, {tpidCSIG, 1<<13 | 31<<7 | 126}}, []tag{{tpidVLAN, 5<<13 | 77}, {tpidCSIG, 1<<13 | 7<<7 | 5}}},
		{"two VLANs", []tag{{tpidVLAN, 1<<13 | 31<<7 | 126}, {tpidVLAN, 1<<13 | 31<<7 | 126}}, []tag{{tpidVLAN, 1<<13 | 31<<7 | 126}, {tpidVLAN, 1<<13 | 31<<7 | 126}}},
		{"none", nil, nil},
	} {
		s.in.Send(frame(1, tc.sent...))
		if got, want := s.out.Receive(soon), frame(1, tc.want...); !bytes.Equal(got, want) {
			t.Errorf("%s: got  %x\nwant %x\n%s", tc.name, got, want, s.Ofctl("dump-flows", "csig"))
		}
	}
	// Tags of other domains are the ethertype of what is in front of them.
	others := setupFor(quantize.Draft00, swp1)
	others.WideTPID, others.Others = 0x9901, []vendors.OtherTPID{{TPID: 0x9aaa}, {TPID: 0x9aab, Wide: true}}
	if changes, err := Diff(setupFor(quantize.Draft00, swp1), others); err != nil || len(changes) != 1 || !strings.Contains(changes[0].Detail, "others=0x9aaa,0x9aab (wide)") {
		t.Errorf("changes %+v, %v", changes, err)
	}
	apply(t, s.driver, others)
	update(t, s.driver, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABWC, 7, 5)}})
	csig := tag{tpidCSIG, 1<<13 | 31<<7 | 126}
	for i, in := range [][]tag{nil, {{tpidVLAN, 5<<13 | 77}}} {
		for _, behind := range []tag{{}, {0x9901, 1}, {0x9aaa, 2}, {0x9aab, 3}} {
			sent, want := append(slices.Clone(in), csig), append(slices.Clone(in), csig)
			if behind == (tag{}) {
				want[i] = tag{tpidCSIG, 1<<13 | 7<<7 | 5}
			} else {
				sent, want = append(sent, behind), append(want, behind)
			}
			s.in.Send(frame(1, sent...))
			if got, want := s.out.Receive(soon), frame(1, want...); !bytes.Equal(got, want) {
				t.Errorf("%+v: got  %x\nwant %x", sent, got, want)
			}
		}
	}
	strips := others
	strips.WideTPID, strips.Ports = 0, []vendors.PortSetup{{Port: "swp1", Action: vlanrules.Strip}}
	if _, err := Diff(others, strips); err == nil {
		t.Error("a port strips where other TPIDs are about")
	}
	if got, err := s.driver.Observe(t.Context()); err != nil || got.Damaged != "" || !slices.Equal(got.Others, others.Others) {
		t.Errorf("observed %+v, %v", got, err)
	}
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	got, err := s.driver.Observe(t.Context())
	if err != nil || got.Damaged != "" || len(got.Ports) != 1 || got.Ports[0] != swp1 {
		t.Errorf("observed %+v, %v", got, err)
	}
}
