package sai

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// device is a device of the fleet with the ports of an input, and what was played there.
func device(in *Input, played string) *inventory.Device {
	keys := &Keys{Played: played, TAM: []string{foreignTAM.String()}, Capabilities: &CapabilitiesKeys{
		Tags: []string{"compact", "wide"}, Signals: []string{"abw", "abwc", "pd"}, Timers: 1, Intervals: in.Caps.Intervals, DBit: "sets", Strip: true, Locator: true,
	}}
	d := &inventory.Device{Name: "leaf-1", Platform: Platform.Name, Interval: in.Interval}
	for _, p := range in.Ports {
		keys.Ports = append(keys.Ports, PortKeys{p.Name, p.OID.String()})
		d.Ports = append(d.Ports, inventory.Port{Name: p.Name, Action: p.Action, LM: p.LM})
	}
	d.Management.Own = map[string]inventory.PlatformKeys{Platform.Key: keys}
	return d
}

func setupOf(in *Input, d *inventory.Device) vendors.Setup {
	return vendors.SetupOf(in.Profile, inventory.Policy{OnStale: inventory.Conservative}, d)
}

func appendTo(t *testing.T, path string, text []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// calls are the lines of a recording that are no comments.
func calls(text []byte) (out []string) {
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// What was played is what the device has: from there on a recording has what differs, and
// a removal leaves nothing of csig's.
func TestPlayed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "played.rec")
	var have vendors.Setup
	for _, in := range []*Input{uec(t), wide(t), wide(t)} {
		dev := device(in, path)
		want := setupOf(in, dev)
		d, err := Open(dev)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Observe(t.Context())
		if err != nil || !sameSetup(&got, &have) {
			t.Fatalf("it has %+v, %v", got, err)
		}
		text, err := Commands(dev, have, want)
		if err != nil {
			t.Fatal(err)
		}
		changes, err := d.Diff(have, want)
		if err != nil || (len(changes) > 0) != (len(calls(text)) > 0) {
			t.Fatalf("changes %v, %v, but the recording is\n%s", changes, err, text)
		}
		if err := d.Apply(t.Context(), want); errors.Is(err, ErrNotReached) != (len(changes) > 0) {
			t.Errorf("apply of %d changes: %v", len(changes), err)
		}
		appendTo(t, path, text)
		have = want
	}
	in := wide(t)
	in.Ports[0].LM[quantize.MinABW], in.Ports[0].LM[quantize.MaxPD] = 11, 11
	dev := device(in, path)
	d, err := Open(dev)
	if err != nil {
		t.Fatal(err)
	}
	have, err = d.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A locator is no part of the setup.
	if changes, err := d.Diff(have, setupOf(in, dev)); err != nil || len(changes) != 1 || changes[0].Kind != vendors.Alter {
		t.Errorf("another locator: %v, %v", changes, err)
	}
	if err := d.Remove(t.Context()); !errors.Is(err, ErrNotReached) {
		t.Errorf("remove: %v", err)
	}
	text, err := Commands(dev, have, vendors.Setup{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(switchTAM+"=1:"+foreignTAM.String()+"\n")) {
		t.Errorf("what others have bound is not bound any more:\n%s", text)
	}
	appendTo(t, path, text)
	p, have, err := played(path)
	if err != nil || p != nil || !have.Nothing() {
		t.Errorf("after the removal: %+v, %+v, %v", p, have, err)
	}
	if err := d.Remove(t.Context()); err != nil {
		t.Errorf("there is nothing to remove: %v", err)
	}
}

// The steps of one plan follow from each other, though only the first follows from what
// was played.
func TestStepsOfAPlan(t *testing.T) {
	in := uec(t)
	dev := device(in, "")
	open := setupOf(in, dev)
	fence := *open.Wanted()
	for i := range fence.Ports {
		fence.Ports[i].Action = vlanrules.Strip
	}
	var steps []byte
	for _, s := range [][2]vendors.Setup{{{}, fence}, {fence, open}} {
		text, err := Commands(dev, s[0], s[1])
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, text...)
	}
	after, _, err := replay(bytes.NewReader(steps))
	if err != nil {
		t.Fatal(err)
	}
	device, err := objectsOf(dev)
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := device.program(&open, nil)
	if err != nil {
		t.Fatal(err)
	}
	if ops := Changes(after, want); len(ops) > 0 {
		t.Errorf("after both steps there is left to do:\n%s", Record(ops))
	}
}

// A setup that no object can be made for is refused by name, before anything.
func TestDiffRefuses(t *testing.T) {
	in := uec(t)
	dev := device(in, "")
	d, err := Open(dev)
	if err != nil {
		t.Fatal(err)
	}
	want := setupOf(in, dev)
	want.Ports[0].Action = vlanrules.Passthrough
	var lacking *CapabilityError
	if _, err := d.Diff(vendors.Setup{}, want); !errors.As(err, &lacking) || lacking.Capability != "passthrough" {
		t.Errorf("a port that passes tags through: %v", err)
	}
	want = setupOf(in, dev)
	want.Others = []vendors.OtherTPID{{TPID: 0x9a00}}
	if _, err := d.Diff(vendors.Setup{}, want); !errors.As(err, &lacking) || lacking.Capability != "other TPIDs" {
		t.Errorf("other TPIDs: %v", err)
	}
	if err := d.Remove(t.Context()); !errors.Is(err, errUnknownState) {
		t.Errorf("what it has is not known: %v", err)
	}
	if _, err := Open(&inventory.Device{}); err == nil {
		t.Error("a device without keys is opened")
	}
}

func TestPlayedMistakes(t *testing.T) {
	for _, text := range []string{
		"no call",
		"t|c|SAI_OBJECT_TYPE_TAM_INT:oid:0x53004300009900", // a second time
		"t|c|SAI_OBJECT_TYPE_TAM_INT",
		"t|c|SAI_OBJECT_TYPE_TAM_INT:oid:0x3c004300000001", // a TAM's
		"t|c|SAI_OBJECT_TYPE_TAM:oid:0x3c004300000001|NO_VALUE",
		"t|r|SAI_OBJECT_TYPE_TAM:oid:0x3c004300000001",
		"t|s|SAI_OBJECT_TYPE_TAM:oid:0x3c004300000001|" + attrInts + "=0:null",
		"t|s|SAI_OBJECT_TYPE_SWITCH:oid:0x21000000000000|" + switchTAM + "=1:oid:x",
		setupMark + `{"ports":[{"action":"jump"}]}`,
		"t|c|SAI_OBJECT_TYPE_TAM:oid:0x3c004300000001" + strings.Repeat("|A=1", maxAttrs+1),
		strings.Repeat("x", maxLine+1),
	} {
		if _, _, err := replay(strings.NewReader("t|c|SAI_OBJECT_TYPE_TAM_INT:oid:0x53004300009900\n" + text + "\n")); err == nil || !strings.HasPrefix(err.Error(), "2: ") {
			t.Errorf("%.80s: %v", text, err)
		}
	}
}

func FuzzPlayed(f *testing.F) {
	text, err := os.ReadFile("testdata/uec.rec")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("2026-01-01.00:00:00.000000|#|recording on: x\nt|g|SAI_OBJECT_TYPE_SWITCH:oid:0x21000000000000|A=1\n"))
	f.Add([]byte("t|s|SAI_OBJECT_TYPE_SWITCH:oid:0x21000000000000|" + switchTAM + "=0:null\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, _, err := replay(bytes.NewReader(text))
		if err != nil || p == nil {
			return
		}
		// What is read and written again is the same.
		again, _, err := replay(bytes.NewReader(Record(Changes(nil, p))))
		if err != nil {
			t.Fatal(err)
		}
		if ops := Changes(p, again); len(ops) > 0 {
			t.Fatalf("it is another one:\n%s", Record(ops))
		}
	})
}

// TestLiveCalls prints what the agent of a switch that csig reaches has orchagent do, from nothing, from another locator's profile, and away.
func TestLiveCalls(t *testing.T) {
	in := wide(t)
	measure := *in.Profile
	measure.Interval = in.Interval
	dev := &inventory.Device{Name: "leaf1", Platform: "sai"}
	want := vendors.Setup{TPID: in.Profile.TPID, WideTPID: in.Profile.WideTPID, Layout: in.Profile.Layout, OnStale: inventory.Conservative, Profile: in.Profile.Hash(), Measure: &measure, Signals: in.signals()}
	for _, p := range in.Ports {
		dev.Ports = append(dev.Ports, inventory.Port{Name: p.Name, LM: p.LM})
		want.Ports = append(want.Ports, vendors.PortSetup{Port: p.Name, Action: p.Action})
	}
	text, err := Commands(dev, vendors.Setup{}, want)
	for _, line := range []string{"|c|SAI_OBJECT_TYPE_TAM_INT:", "|s|SAI_OBJECT_TYPE_PORT:Ethernet5|SAI_PORT_ATTR_INT_DELETE=true", "|s|SAI_OBJECT_TYPE_PORT:Ethernet2|SAI_PORT_ATTR_INT_METADATA=2", "# calls that csig agent has orchagent make"} {
		if err != nil || strings.Count(string(text), line) == 0 {
			t.Errorf("no %s: %v\n%s", line, err, text)
		}
	}
	have := *want.Wanted()
	have.Measure, have.Ports = nil, have.Ports[:1] // as a device has it
	if text, err = Commands(dev, have, want); err != nil || strings.Contains(string(text), "|c|") || !strings.Contains(string(text), "PORT:Ethernet2|") || strings.Contains(string(text), "PORT:Ethernet1|") {
		t.Errorf("two ports more: %v\n%s", err, text)
	}
	have.Profile = "another"
	if text, err = Commands(dev, have, want); err != nil || !strings.Contains(string(text), "of another profile") || !strings.Contains(string(text), "|c|") {
		t.Errorf("from another profile: %v\n%s", err, text)
	}
	if text, err = Commands(dev, have, vendors.Setup{}); err != nil || !strings.Contains(string(text), "CSIG_SAI_TABLE") {
		t.Errorf("away: %v\n%s", err, text)
	}
}
