package qualifytest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
)

// Fake is a fake switch with a command line and a data plane. Its driver takes the CSIG tag
// for the outer one, as the bench's frames have no other.
type Fake struct {
	Plane *plane.Plane
	Ports []string // the switch's names of the plane's first two ports
	TPID  uint16
	Open  func() vendors.Driver // a session more
}

const fakeFleet = `format: csig.fleet/v1
profile: {name: lab, tpid: 0x%04x, interval: 1s, signals: {abw: {buckets: log-10G, quantum: 1Mbit/s}, abwc: {buckets: log, quantum: 1ppm}}}
devices: [{name: sw1, platform: broadcom-fp, ports: [{name: %s, speed: 10G, lm: 1}, {name: %s, speed: 10G, lm: 2}]}]
`

// fakeFaults are what a plane can do wrong: the experiments that find it, and what they have
// to find.
var fakeFaults = []struct {
	name   string
	faults plane.Faults
	ask    string
	want   string
}{
	{"healthy", plane.Faults{}, "tpid marks vids bridging rule-key rewrite untagged rule-change hitless session-lost link-flap", ""},
	{"bridging follows the VID", plane.Faults{BridgeByVID: true}, "bridging", "bridging-follows-vid"},
	{"VID 4095 dropped", plane.Faults{Drop4095: true}, "vids", "vid-4095-lost"},
	{"DEI lost", plane.Faults{LoseDEI: true}, "rewrite", "dei-altered"},
	{"match sees the bridging VLAN", plane.Faults{MatchBridging: true}, "rule-key", "no-rewrite"},
	{"update not hitless", plane.Faults{Gap: 20 * time.Millisecond}, "hitless", "change-not-hitless"},
	{"reverts after a link flap", plane.Faults{LoseByFlap: true}, "link-flap", "lost-by-link-flap"},
	{"table of 10 entries", plane.Faults{Entries: 10}, "rewrite", "not-in-hardware"},
	{"a table that no driver fills", plane.Faults{}, "entries", "and names no number: rules for which there is no room are its error"},
}

// Healthy has the bench judge a fake switch by what it is quick at: no fault is found.
func Healthy(t *testing.T, fake func(t testing.TB) Fake) {
	t.Parallel()
	Judged(t, fake(t), plane.Faults{}, "tpid rule-key link-flap", "")
}

// Faulty has it judge the switch healthy and with each fault of the plane, which is found and
// named, and no other.
func Faulty(t *testing.T, fake func(t testing.TB) Fake) { faulty(t, fake, true) }

// FaultyTable is Faulty without the faults that are found on the wire alone, whatever the driver does.
func FaultyTable(t *testing.T, fake func(t testing.TB) Fake) { faulty(t, fake, false) }

func faulty(t *testing.T, fake func(t testing.TB) Fake, wire bool) {
	for _, tc := range fakeFaults {
		switch inTable := tc.ask == "entries" || tc.faults.Entries > 0; {
		case !wire && tc.want == "":
			tc.ask = "rewrite untagged session-lost" // of hitless TestBetweenLines says more, in less than 320 changes
		case !wire && !inTable:
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			Judged(t, fake(t), tc.faults, tc.ask, tc.want)
		})
	}
}

// needsQuiet ends what the bench finds on a machine that is too busy for it.
const needsQuiet = "a quieter machine is needed"

// SetUp has the bench judge a fake switch that csig can only set up: it forwards tags as it should,
// and whatever takes rules or strip is not tested, for the driver's reasons.
func SetUp(t *testing.T, f Fake, noUpdate, noStrip string) {
	t.Helper()
	const rules = "rule-key rewrite untagged rule-change hitless session-lost link-flap"
	r := judge(t, f, plane.Faults{}, "tpid marks bridging strip "+rules)
	for i := range r.Results {
		res, why := &r.Results[i], ""
		switch {
		case slices.Contains(strings.Fields(rules), res.ID):
			why = noUpdate
		case res.ID == "strip":
			why = noStrip
		}
		if !slices.Contains(strings.Fields(rules), res.ID) && res.Outcome == qualify.NotTested && strings.HasSuffix(res.Found, needsQuiet) {
			continue
		}
		if why == "" && res.Outcome != qualify.Pass || why != "" && (res.Outcome != qualify.NotTested || !strings.Contains(res.Found, why)) {
			t.Errorf("%s: %s: %s %v; want: %s", res.ID, res.Outcome, res.Found, res.Faults, why)
		}
	}
}

// Judged has it judge a switch with faults of the plane by the experiments that ask names: it
// finds what want names, "" for nothing, and nothing else.
func Judged(t *testing.T, f Fake, faults plane.Faults, ask, want string) {
	t.Helper()
	r := judge(t, f, faults, ask)
	var got []string
	for i := range r.Results {
		res := &r.Results[i]
		for _, f := range res.Faults {
			got = append(got, f.Code)
		}
		if res.Outcome == qualify.NotTested && !strings.HasSuffix(res.Found, needsQuiet) {
			got = append(got, "not tested: "+res.Found)
		}
	}
	if found := strings.Join(got, ", "); found != want && !(strings.Contains(want, " ") && strings.Contains(found, want)) {
		t.Errorf("found %q, want %q", found, want)
	}
}

// judge runs the experiments that ask names.
func judge(t *testing.T, f Fake, faults plane.Faults, ask string) *qualify.Report {
	t.Helper()
	f.Plane.Set(faults)
	fleet, err := inventory.Parse("fleet.yaml", fmt.Appendf(nil, fakeFleet, f.TPID, f.Ports[0], f.Ports[1]))
	if err != nil {
		t.Fatal(err)
	}
	b := &qualify.Bench{Device: fleet.Devices[0], Profile: &fleet.Profile, Policy: fleet.Policy, Driver: f.Open(), Settle: 5 * time.Millisecond, Means: qualify.Means{
		Every:  389,
		Reopen: func(context.Context) (vendors.Driver, error) { return f.Open(), nil },
	}}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	b.Ports = Cards(t, f.Plane.Host, "c", f.Ports[:2]...)
	for i, p := range b.Ports {
		link := p.Link
		p.Link = func(up bool) error {
			if !up {
				if err := f.Plane.LinkDown(i + 1); err != nil {
					return err
				}
			}
			return link(up)
		}
	}
	list := slices.DeleteFunc(qualify.All(), func(e qualify.Experiment) bool { return !slices.Contains(strings.Fields(ask), e.ID) })
	r, err := qualify.Run(t.Context(), b, qualify.Options{Experiments: list, Destructive: true, Folder: filepath.Join(t.TempDir(), "out"), Quiet: 10 * time.Millisecond, About: qualify.About{Device: "sw1", Platform: "fake"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Results {
		res := &r.Results[i]
		t.Logf("%s: %s (%.1f s): %s %v", res.ID, res.Outcome, res.Took.Seconds(), res.Found, res.Notes)
	}
	return r
}
