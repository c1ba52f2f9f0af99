package all

import (
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vendors/vendorstest/freeport"
	"github.com/csig-agent/csig/vlanrules"
)

// TestRemoteOpenVSwitch drives a bridge by its sockets through a real sshd, and
// continues after the connection is lost.
func TestRemoteOpenVSwitch(t *testing.T) {
	s := ovstest.Start(t, ovstest.Options{Dummy: true})
	s.AddBridge("csig")
	s.AddWire("csig", "swp1", 1)
	sshd := sshtest.Start(t, sshtest.Options{Port: freeport.TCP(t)})
	d, err := Open("ovs", vendors.Config{Device: inventory.Device{Name: "vs2", Address: sshd.Address, Management: inventory.Management{
		SSH: &sshd.Login, Own: map[string]inventory.PlatformKeys{"ovs": &ovs.Keys{Bridge: "csig", RunDir: s.Dir, Table: 100}}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	want := vendors.Setup{TPID: 0x88a8, Signals: []quantize.Signal{quantize.MinABW}, OnStale: inventory.Conservative,
		Ports: []vendors.PortSetup{{Port: "swp1", Action: vlanrules.Update}}}
	if err := d.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	update := []vendors.PortUpdate{{Port: "swp1", Intents: []vlanrules.Intent{{Signal: quantize.MinABW, Action: vlanrules.Update, S: 7, LM: 5}}}}
	if res, err := d.Update(t.Context(), update, time.Minute); err != nil || !res.Leased || res.Ports != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	s.StopSwitch()
	if _, err := d.Update(t.Context(), update, time.Minute); err == nil {
		t.Error("an update of a switch that is gone succeeds")
	}
	s.StartSwitch()
	if res, err := d.Update(t.Context(), update, time.Minute); err != nil || !res.Leased || res.Repaired == nil {
		t.Errorf("%+v, %v", res, err)
	}
	got, err := d.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if changes, err := d.Diff(got, want); err != nil || len(changes) != 0 {
		t.Errorf("%+v, %v", changes, err)
	}
}
