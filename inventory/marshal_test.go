package inventory

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// plain is a fleet without what reading adds to it: where values come from.
func plain(f *Fleet) *Fleet {
	out := *f
	out.index, out.warnings = nil, nil
	return &out
}

type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

func roundTrip(t fatal, f *Fleet) {
	t.Helper()
	text, err := Marshal(f)
	if err != nil {
		t.Fatalf("%v", err)
	}
	again, err := Parse(f.Path, text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if !reflect.DeepEqual(plain(f), plain(again)) {
		t.Fatalf("got  %+v\nwant %+v\n%s", again, f, text)
	}
}

// TestRoundTrip writes fleets made at random and reads them again.
func TestRoundTrip(t *testing.T) {
	draw(t, func(t *rapid.T) { roundTrip(t, drawFleet(t)) })
}

var word = rapid.StringMatching(`[a-z][a-z0-9]{0,4}`)

func drawFleet(t *rapid.T) *Fleet {
	intervals := rapid.SampledFrom([]time.Duration{time.Millisecond, 1500 * time.Microsecond, 100 * time.Millisecond, time.Minute})
	f := &Fleet{
		Path: "fleet.yaml",
		Profile: quantize.Profile{
			Name:     rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,20}`).Draw(t, "name"),
			TPID:     rapid.SampledFrom([]uint16{0x9900, 0x9ab0, 0x88a8}).Draw(t, "tpid"),
			Layout:   rapid.SampledFrom([]quantize.Layout{quantize.Draft00, quantize.UEC}).Draw(t, "layout"),
			Interval: intervals.Draw(t, "interval"),
			Signals:  make(map[quantize.Signal]quantize.SignalProfile),
		},
		Policy:    Policy{OnStale: rapid.SampledFrom([]OnStale{Conservative, StaleStrip, StalePassthrough}).Draw(t, "on_stale")},
		VLANTPIDs: []uint16{0x8100, 0x88a8},
	}
	f.Policy.Schedule = drawSchedule(t, f.Profile.Interval)
	f.Policy.Estimator = drawEstimator(t)
	f.Policy.Damping = Damping{Hold: rapid.IntRange(0, 1000).Draw(t, "hold"), Margin: 1000 * rapid.Uint64Range(0, 1000).Draw(t, "margin")}
	if f.Profile.TPID == 0x88a8 {
		f.VLANTPIDs = []uint16{0x8100}
	}
	wide := rapid.Bool().Draw(t, "wide")
	if wide {
		f.Profile.WideTPID = 0x9901
	}
	shared, sharedWide := drawLocator(t, f.Profile.Layout.LMBits()), drawLocator(t, f.Profile.Layout.WideLMBits())
	own := rapid.Bool().Draw(t, "own locators")
	signals := []quantize.Signal{quantize.MinABW, quantize.MinABWC, quantize.MaxPD}
	if f.Profile.Layout == quantize.UEC {
		signals = append(signals, quantize.MaxNQD)
	}
	for _, sig := range rapid.SliceOfNDistinct(rapid.SampledFrom(signals), 1, len(signals), rapid.ID).Draw(t, "signals") {
		sp := quantize.SignalProfile{Buckets: drawBuckets(t, sig), Locator: shared}
		if own {
			sp.Locator = drawLocator(t, f.Profile.Layout.LMBits())
		}
		if wide {
			sp.WideLocator = sharedWide
			sp.Quantum = rapid.Uint64Range(1, 1e12).Draw(t, "quantum")
		}
		f.Profile.Signals[sig] = sp
		if rapid.Bool().Draw(t, "initial") {
			if f.Profile.InitialS == nil {
				f.Profile.InitialS = make(map[quantize.Signal]uint8)
			}
			f.Profile.InitialS[sig] = rapid.Uint8Range(1, 30).Draw(t, "initial_s")
		}
	}
	for _, name := range rapid.SliceOfNDistinct(word, 0, 3, rapid.ID).Draw(t, "hosts") {
		h := Host{Name: "host-" + name, MTU: rapid.SampledFrom([]int{0, 1500, 9216}).Draw(t, "host mtu"), CSIG: rapid.Bool().Draw(t, "csig")}
		h.Interface = rapid.SampledFrom([]string{"", "eth0", "null"}).Draw(t, "interface")
		if h.Interface != "" {
			h.Local = rapid.Bool().Draw(t, "local host")
			if !h.Local {
				h.NetNS = rapid.SampledFrom([]string{"", "/run/netns/a b"}).Draw(t, "host netns")
			}
		}
		f.Hosts = append(f.Hosts, h)
	}
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,8}`), 0, 3, rapid.ID).Draw(t, "devices")
	facts := drawFacts(t)
	addresses := map[string]bool{} // no two devices are at one place
	for i, name := range names {
		d := Device{Name: name, Platform: rapid.SampledFrom([]string{"linux", "arista_eos"}).Draw(t, "platform"), Local: i == 1}
		d.Interval, d.Schedule = f.Profile.Interval, f.Policy.Schedule
		if rapid.Bool().Draw(t, "override") {
			d.Interval = intervals.Draw(t, "interval")
			d.Schedule = drawSchedule(t, d.Interval)
		}
		d.Estimator = f.Policy.Estimator
		if rapid.Bool().Draw(t, "own estimator") {
			d.Estimator = drawEstimator(t)
		}
		d.Experimental = rapid.Bool().Draw(t, "experimental")
		d.Updates = rapid.SampledFrom([]Updates{"", UpdatesCLI}).Draw(t, "updates")
		d.Lease = rapid.SampledFrom([]Lease{"", LeaseNone}).Draw(t, "lease")
		if rapid.Bool().Draw(t, "has facts") {
			d.Facts = facts
		}
		d.Counters = drawCounters(t)
		if d.Counters.SNMP != nil || d.Counters.GNMI != nil || rapid.Bool().Draw(t, "has address") {
			d.Address = rapid.SampledFrom([]string{"192.0.2.7", "2001:db8::7", "::1", "fe80::1%eth0.5", "leaf-1", "leaf-1.example.net.", "7up", "1e3", "true", "null"}).
				Filter(func(a string) bool { _, twice := addresses[a]; return !twice }).Draw(t, "address")
			addresses[d.Address] = true
		}
		drawManagement(t, &d)
		drawPorts(t, f, names, &d)
		f.Devices = append(f.Devices, d)
	}
	drawRetired(t, f)
	return f
}

func drawRetired(t *rapid.T, f *Fleet) {
	for _, tpid := range []uint16{0x88a8, 0x9aaa, 0x9abc} {
		if tpid != f.Profile.TPID && (tpid != 0x88a8 || !slices.Contains(f.VLANTPIDs, tpid)) && rapid.Bool().Draw(t, "retired") {
			f.Policy.Retired = append(f.Policy.Retired, RetiredTPID{tpid, rapid.Bool().Draw(t, "wide")})
		}
	}
	for i := range f.Devices {
		for j := range f.Devices[i].Ports {
			p := &f.Devices[i].Ports[j]
			p.StripRetired = f.Policy.Retired != nil && p.Action != vlanrules.Strip && rapid.Bool().Draw(t, "strip retired")
		}
	}
}

func drawManagement(t *rapid.T, d *Device) {
	d.Level.Support = rapid.SampledFrom([]Support{LevelAuto, LevelNative, LevelSoftware, LevelPassthrough, LevelDiscard}).Draw(t, "level")
	if rapid.Bool().Draw(t, "has reason") {
		d.Level.Reason = rapid.SampledFrom([]string{"tested: 2026-03", "yes", "it's \"so\"", "a # b"}).Draw(t, "reason")
	}
	if d.Level.Support == LevelNative && rapid.Bool().Draw(t, "has profile") {
		d.Level.Profile = rapid.SampledFrom([]string{"0123456789ab", "123456789012", "1e2345678901", "abcdefabcdefabcd"}).Draw(t, "level profile")
	}
	d.Tags = rapid.SliceOfNDistinct(word, 0, 3, rapid.ID).Draw(t, "tags")
	slices.Sort(d.Tags)
	if len(d.Tags) == 0 {
		d.Tags = nil
	}
	if d.Address == "" {
		return
	}
	if rapid.Bool().Draw(t, "ssh") {
		d.Management.SSH = rapid.SampledFrom([]*SSH{
			{User: "admin", Port: 22, Agent: true},
			{User: "a b", Port: 2222, Key: "/k/id", Passphrase: Secret{Env: "P"}, KnownHosts: "/k/known hosts"},
			{User: "x", Port: 22, Password: Secret{Command: []string{"pass", "a b"}}, Sudo: &Sudo{}},
			{User: "y", Port: 22, Key: "/k/id", Sudo: &Sudo{Password: Secret{File: "/k/sudo"}}},
			{User: "z", Port: 22, Agent: true, Sudo: &Sudo{Password: Secret{Command: []string{"pass", "a, b"}}}},
		}).Draw(t, "ssh is")
		if rapid.Bool().Draw(t, "socket") {
			d.Management.Daemon = &Daemon{Socket: "/run/csig/agent.sock"}
		}
	} else if rapid.Bool().Draw(t, "tcp") {
		d.Management.Daemon = &Daemon{Port: 7443, TLS: TLS{CA: "/a", Cert: "/b", Key: "/c", ServerName: "leaf-1"}}
	}
}

func drawSchedule(t *rapid.T, interval time.Duration) string {
	text := []string{fmt.Sprintf("@every %s", interval), "@every 1ms"}
	if interval >= time.Minute {
		text = append(text, "* * * * *", "CRON_TZ=UTC */1 * * * *")
	}
	return rapid.SampledFrom(text).Draw(t, "schedule")
}

func drawBuckets(t *rapid.T, sig quantize.Signal) quantize.Buckets {
	if rapid.Bool().Draw(t, "preset") {
		b, err := quantize.Preset(sig, rapid.SampledFrom(quantize.PresetNames(sig)).Draw(t, "name"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	bounds := []uint64{0}
	for range quantize.NumBuckets {
		bounds = append(bounds, bounds[len(bounds)-1]+rapid.Uint64Range(1, 30_000).Draw(t, "width"))
	}
	b, err := quantize.NewBuckets(sig, bounds)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func drawLocator(t *rapid.T, bits int) quantize.Locator {
	var l quantize.Locator
	names := rapid.SliceOfNDistinct(word, 0, 3, rapid.ID).Draw(t, "fields")
	for _, name := range names {
		if slices.Contains([]string{"abw", "abwc", "pd", "nqd"}, name) || bits == 0 {
			continue
		}
		f := quantize.LocatorField{Name: name, Bits: rapid.IntRange(1, bits).Draw(t, "bits")}
		bits -= f.Bits
		for i, value := range rapid.SliceOfNDistinct(word, 0, 2, rapid.ID).Draw(t, "values") {
			if value == quantize.LMNoneText || value == quantize.LMStaleText {
				continue
			}
			if f.Names == nil {
				f.Names = make(map[string]uint16)
			}
			f.Names[value] = uint16(i) // 0 and 1 fit any field
		}
		l.Fields = append(l.Fields, f)
	}
	return l
}

func drawPorts(t *rapid.T, f *Fleet, devices []string, d *Device) {
	layout := f.Profile.Layout
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[!-9;-~]{1,15}`), 1, 4, rapid.ID).Draw(t, "ports")
	for _, name := range names {
		if portNameProblem(name, "linux") != "" {
			name = fmt.Sprintf("p%d", len(d.Ports))
			for slices.Contains(names, name) {
				name += "x"
			}
		}
		p := Port{
			Name:   name,
			Speed:  rapid.SampledFrom([]uint64{0, 1, 999, 25e8, 10e9, 16e11, 123456789}).Draw(t, "speed"),
			Action: rapid.SampledFrom([]vlanrules.Action{vlanrules.Update, vlanrules.Passthrough, vlanrules.Strip}).Draw(t, "action"),
		}
		p.SpeedOverride = p.Speed != 0 && rapid.Bool().Draw(t, "override")
		p.MTU = rapid.SampledFrom([]int{0, 1500, 9216}).Draw(t, "mtu")
		if rapid.Bool().Draw(t, "peer") {
			p.Peer = Peer{Device: word.Draw(t, "peer device")}
			if len(f.Hosts) > 0 {
				p.Peer.Device = rapid.SampledFrom(f.Hosts).Draw(t, "peer host").Name
				if rapid.Bool().Draw(t, "peer has ports") {
					p.Peer.Port = rapid.StringMatching(`[!-Z\\^-~]{1,12}`).Draw(t, "peer port")
				}
			} else if slices.Contains(devices, p.Peer.Device) {
				p.Peer = Peer{}
			}
		}
		if p.Action == vlanrules.Update || rapid.Bool().Draw(t, "has lm") {
			p.LM = make(map[quantize.Signal]uint16)
			for _, sig := range quantize.Signals {
				sp, carried := f.Profile.Signals[sig]
				if !carried {
					continue
				}
				free := freeLocators(sp.Locator, layout, d, sig)
				if len(free) == 0 { // the format names too few ports
					p.Action, p.LM = vlanrules.Strip, nil
					break
				}
				p.LM[sig] = rapid.SampledFrom(free).Draw(t, "lm")
			}
		}
		d.Ports = append(d.Ports, p)
	}
}

// freeLocators lists what a further port of a device may write: what reads back
// as a port of this format, and no other port of the device writes.
func freeLocators(l quantize.Locator, layout quantize.Layout, d *Device, sig quantize.Signal) []uint16 {
	var free []uint16
	for lm := uint16(1); lm < layout.LMStale(); lm++ {
		_, err := l.Parse(layout.LMBits(), l.Text(layout.LMBits(), lm))
		taken := slices.ContainsFunc(d.Ports, func(p Port) bool {
			other, ok := p.LM[sig]
			return ok && other == lm
		})
		if err == nil && !taken {
			free = append(free, lm)
		}
	}
	return free
}

// TestMarshalRefuses checks that nothing is written which cannot be read.
func TestMarshalRefuses(t *testing.T) {
	f := parse(t, good)
	f.Devices[0].Ports[0].LM[quantize.MinABW] = 127
	if text, err := Marshal(f); err == nil {
		t.Errorf("a reserved locator was written:\n%s", text)
	}
	f = parse(t, good)
	f.Devices[0].Ports[0].Action = 7
	if text, err := Marshal(f); err == nil {
		t.Errorf("an unknown action was written:\n%s", text)
	}
}
