package openconfig

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/gnmi/oc"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/gnmiset"
	"github.com/csig-agent/csig/vendors/openconfig/octest"
	"github.com/csig-agent/csig/vlanrules"
)

var ports = []string{"Ethernet1", "Ethernet2", "Ethernet3"}

// connect opens connections with a target.
func connect(t *octest.Target) func(context.Context) (*gnmi.Target, error) {
	return func(context.Context) (*gnmi.Target, error) {
		return gnmi.Connect(gnmi.Config{Device: "leaf1", Address: t.Address, Dial: t.Dial, Plaintext: true, Username: t.Username, Password: "secret"})
	}
}

func open(tb testing.TB, cfg gnmiset.Config) *gnmiset.Driver {
	d := Open(cfg)
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}

func setup(tpid uint16, names ...string) vendors.Setup {
	s := vendors.Setup{TPID: tpid, Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative, Profile: strings.Repeat("5", 64)}
	for _, p := range names {
		s.Ports = append(s.Ports, vendors.PortSetup{Port: p, Action: vlanrules.Passthrough})
	}
	return s
}

// foreign gives a port values that an operator configured.
func foreign(d *oc.Device) {
	mtu, text := uint16(9000), "to spine1"
	d.Interface["Ethernet2"].Tpid, d.Interface["Ethernet2"].Mtu = oc.VlanTypes_TPID_TYPES_TPID_0X9100, &mtu
	d.Interface["Ethernet1"].Description = &text
	set, err := (&oc.Acl{}).NewAclSet("mine", oc.Acl_ACL_TYPE_ACL_IPV4)
	if err != nil {
		panic(err)
	}
	long := strings.Repeat("x", 600) + "\u202e" // longer than any of csig's, and not printable
	set.Description = &long
	d.Acl = &oc.Acl{AclSet: map[oc.Acl_AclSet_Key]*oc.Acl_AclSet{{Name: "mine", Type: oc.Acl_ACL_TYPE_ACL_IPV4}: set}}
}

// TestSetUp: a setup is one transaction, reads back, and leaves what was there before.
func TestSetUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := octest.New(ports...)
		target.ServeMemory(t)
		target.Configure(foreign)
		before := target.Config()
		d := open(t, gnmiset.Config{Connect: connect(target)})
		want := setup(0x88a8, ports...)
		if err := d.Apply(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		if sets, _ := target.Sets(); sets != 1 || strings.Count(target.Config(), "TPID_0X88A8") < 3 || !strings.Contains(target.Config(), "to spine1") {
			t.Errorf("%d Sets: %s", sets, target.Config())
		}
		have, err := d.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if left, err := d.Diff(have, want); err != nil || len(left) > 0 {
			t.Errorf("%v, %v", left, err)
		}
		target.Configure(func(dev *oc.Device) { dev.Interface["Ethernet3"].Tpid = 0 })
		time.Sleep(time.Minute) // until the configuration is read again
		if res, err := d.Update(t.Context(), nil, time.Minute); err != nil || !strings.Contains(res.Repaired.String(), "Ethernet3") || strings.Count(target.Config(), "TPID_0X88A8") < 3 {
			t.Errorf("%+v, %v: %s", res, err, target.Config())
		}
		if err := d.SetMTU(t.Context(), "Ethernet2", 9100); err != nil {
			t.Error(err)
		}
		if mtus, err := d.MTUs(t.Context()); err != nil || mtus["Ethernet1"] != 1500 || mtus["Ethernet2"] != 9100 || !strings.Contains(target.Config(), `"mtu": 9114`) {
			t.Errorf("%v, %v: %s", mtus, err, target.Config())
		}
		if err := d.Remove(t.Context()); err != nil || target.Config() != before {
			t.Errorf("%v: %s, want %s", err, target.Config(), before)
		}
	})
}
