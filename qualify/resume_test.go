package qualify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// TestFactsOfAllResults: facts are those of the whole report, whichever call measured.
func TestFactsOfAllResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(t, Forwarding()...)
		o.About = About{Device: "sw1", Platform: "linux", Model: "X-1", Version: "7.4"}
		facts := func() *inventory.Facts {
			t.Helper()
			text, err := os.ReadFile(filepath.Join(o.Folder, factsFile))
			if err != nil {
				t.Fatal(err)
			}
			all, err := inventory.ParseFacts(factsFile, text)
			if err != nil {
				t.Fatal(err)
			}
			return all["linux-x-1-7-4"]
		}
		run := func(stop int, only ...string) *Report {
			t.Helper()
			o.Only = only
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			o.Progress = func(done, _ int, r *Result) {
				if done == stop && r.ID != "" {
					cancel(errStopped)
				}
			}
			s := &soft{treat: func(_, _ int, f []byte) []byte {
				if hasTag(f) && f[14]&0xf == 0xf && f[15] == 0xff {
					return nil
				}
				return f
			}}
			r, err := Run(ctx, softBench(t, 2, s), o)
			if err != nil && !errors.Is(err, errStopped) || (err == nil) != (stop < 0) {
				t.Fatal(err)
			}
			return r
		}
		if r := run(1, "vids", "tpid", "marks"); r.Complete || r.Result("tpid") == nil || r.Result("marks") != nil {
			t.Errorf("%+v", r)
		}
		if f := facts(); f == nil || f.Passthrough == nil || f.DroppedVIDs != nil {
			t.Errorf("after the first of three: %+v", f)
		}
		o.Resume = true
		if r := run(-1); !r.Complete || len(r.Results) != 3 { // the rest of what was named, and no more
			t.Errorf("%+v", r)
		}
		if r := run(-1, "dscp"); !r.Complete || len(r.Results) != 4 || r.Result("vids").Outcome != Fail || strings.Join(r.Only, " ") != "tpid marks vids dscp" {
			t.Errorf("%+v", r)
		}
		if f := facts(); f == nil || f.Passthrough == nil || f.DroppedVIDs == nil || len(*f.DroppedVIDs) != 1 || f.Reasons["dropped_vids"] == "" {
			t.Errorf("a failure is no fact: %+v", f)
		}
	})
}

// TestFactsOfTags: a run is of a layout and of signals, and facts of rules name them.
func TestFactsOfTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := cabled(t)
		b.Profile.Signals = map[quantize.Signal]quantize.SignalProfile{quantize.MinABW: {}, quantize.MaxPD: {}}
		o := options(t, sends)
		o.About = About{Device: "sw1", Platform: "linux", Model: "X-1", Version: "7.4"}
		r, err := Run(t.Context(), b, o)
		if err != nil {
			t.Fatal(err)
		}
		rules := []Experiment{{ID: "sends", Facts: func(_ *Result, f *inventory.Facts) { f.UpdateExact = fact(true) }}}
		if f, err := r.Facts(rules); err != nil || f.Layout != "draft-00" || f.Signals == nil || strings.Join(*f.Signals, " ") != "abw pd" {
			t.Errorf("%+v, %v", f, err)
		}
		rules[0].Facts = func(_ *Result, f *inventory.Facts) { f.Strip = fact(true) }
		if f, err := r.Facts(rules); err != nil || f.Layout != "" || f.Signals != nil {
			t.Errorf("%+v, %v", f, err)
		}
		o.Resume = true
		for _, change := range []func(p *quantize.Profile){func(p *quantize.Profile) { p.Layout = quantize.UEC }, func(p *quantize.Profile) { delete(p.Signals, quantize.MaxPD) }} {
			other, _ := cabled(t)
			other.Profile.Signals = map[quantize.Signal]quantize.SignalProfile{quantize.MinABW: {}, quantize.MaxPD: {}}
			change(other.Profile)
			if _, err := Run(t.Context(), other, o); err == nil || !strings.Contains(err.Error(), "tags of layout draft-00 with the signals abw, pd") {
				t.Errorf("%v", err)
			}
		}
	})
}

var errStopped = errors.New("stopped by the test")

// TestRepeat: --only repeats what it names and leaves the rest; what was measured is not
// lost to a repetition that could not be tried.
func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, third := sends, sends, sends
		first.ID, second.ID, third.ID = "first", "second", "third"
		busy := true
		second.Run = func(ctx context.Context, t *Trial) error {
			if err := sends.Run(ctx, t); err != nil || busy {
				return errors.Join(err, Cannot("a quieter machine is needed"))
			}
			return nil
		}
		o := options(t, first, second, third)
		o.About = About{Device: "sw1"}
		run := func(only ...string) *Report {
			t.Helper()
			o.Only = only
			b, _ := cabled(t)
			r, err := Run(t.Context(), b, o)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r := run("second")
		if !r.Complete || r.Count(NotTested) != 1 {
			t.Fatalf("%+v", r)
		}
		text, err := os.ReadFile(filepath.Join(o.Folder, reportText))
		if err != nil || !strings.Contains(string(text), "--resume --only second") || !strings.Contains(string(text), "experiments   only second") {
			t.Errorf("%v\n%s", err, text)
		}
		o.Resume, busy = true, false
		r = run("first")
		began := r.Result("first").Began
		if r = run("second"); !r.Complete || r.Count(Pass) != 2 || r.Results[1].ID != "second" || r.Results[1].PCAP != filepath.Join("pcap", "second.pcap") || !r.Result("first").Began.Equal(began) {
			t.Errorf("%+v", r)
		}
		busy = true
		for range 2 {
			r = run("second")
		}
		got := r.Result("second")
		if got.Outcome != Pass || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "not tested then: a quieter machine") {
			t.Errorf("a measured result is gone: %+v", got)
		}
		if r = run(); len(r.Results) != 2 { // nothing is left of this run
			t.Errorf("%+v", r)
		}
	})
}

// TestCableAlone: a calibration leaves out what needs a switch, unless it is named.
func TestCableAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		switched := sends
		switched.ID, switched.Needs.Switch = "switched", true
		o := options(t, sends, switched)
		o.IsCable = true
		for only, want := range map[string]int{"": 1, "switched": 1, "sends switched": 2} {
			o.Only, o.Folder = strings.Fields(only), filepath.Join(t.TempDir(), "out")
			b, _ := cabled(t)
			r, err := Run(t.Context(), b, o)
			if err != nil || !r.Complete || len(r.Results) != want || (r.Result("switched") != nil) != strings.Contains(only, "switched") {
				t.Errorf("--only %q: %+v, %v", only, r, err)
			}
			if only == "" && strings.Contains(r.Summary(), "1 not tested") {
				t.Error(r.Summary())
			}
		}
	})
}

// TestMTUTexts: what the cards send decides what is suggested.
func TestMTUTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mtu := Forwarding()[4]
		for _, tc := range []struct {
			mtu   int
			cable bool
			want  string
		}{{1600, false, "the switch's limit may be higher; ip link set c1 mtu 9216 raises theirs"}, {9216, false, "the switch's limit may be higher"}, {1600, true, ""}} {
			b, _ := cabled(t)
			for _, p := range b.Ports {
				p.MTU = tc.mtu
			}
			o := options(t, mtu)
			o.IsCable = tc.cable
			r, err := Run(t.Context(), b, o)
			if err != nil || r.Results[0].ID != "mtu" {
				t.Fatalf("%+v, %v", r, err)
			}
			res := &r.Results[0]
			if notes := strings.Join(res.Notes, "; "); tc.want == "" && notes != "" || !strings.Contains(notes, tc.want) || tc.mtu == usualMTU && strings.Contains(notes, "ip link") {
				t.Errorf("MTU %d, cable %v: %q", tc.mtu, tc.cable, notes)
			}
			if !strings.Contains(res.Found, "of up to") {
				t.Error(res.Found)
			}
			text, err := os.ReadFile(filepath.Join(o.Folder, reportText))
			if err != nil || strings.Contains(string(text), "held 1 times") {
				t.Errorf("%v\n%s", err, text)
			}
		}
	})
}

// TestEditedReport: a report that no run can have written is not resumed, and what its
// texts hold does not reach a terminal.
func TestEditedReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(t, sends)
		o.About = About{Device: "sw1", Model: "X\x1b]0;title\a1"}
		b, _ := cabled(t)
		if _, err := Run(t.Context(), b, o); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(o.Folder, reportJSON)
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		o.Resume = true
		id := sends.ID
		for _, tc := range []struct {
			what, old, new, want string
		}{
			{"nothing", "", "", ""},
			{"an outcome", `"outcome": "pass"`, `"outcome": "excellent"`, `experiment ` + id + ` has the outcome "excellent"`},
			{"a failure without a fault", `"outcome": "pass"`, `"outcome": "fail"`, "with 0 faults"},
			{"a control", `"positive": false`, `"positive": true`, "without a positive and a negative control"},
			{"an experiment", `"id": "` + id, `"id": "unheard-of`, "unheard-of"},
			{"a path", `"pcap": "pcap/`, `"pcap": "../pcap/`, "capture file"},
			{"a number", `"numbers": []`, `"numbers": [{"name": "x_ns", "value": 1e300}]`, "out of the range"},
			{"an escape", `"title": "`, `"title": "\u001b[2J`, ""},
		} {
			if err := os.WriteFile(name, []byte(strings.ReplaceAll(string(whole), cmp.Or(tc.old, " "), cmp.Or(tc.new, " "))), 0o600); err != nil {
				t.Fatal(err)
			}
			b, _ := cabled(t)
			_, err := Run(t.Context(), b, o)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v", tc.what, err)
			}
			for _, file := range []string{reportText, reportMarkdown} {
				if text, err := os.ReadFile(filepath.Join(o.Folder, file)); err != nil || strings.ContainsAny(string(text), "\x1b\a") {
					t.Errorf("%s: %s: %q, %v", tc.what, file, text, err)
				}
			}
		}
		// Written otherwise, as by jq, it is the same report.
		var tight bytes.Buffer
		if err := json.Compact(&tight, whole); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, tight.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		b, _ = cabled(t)
		if r, err := Run(t.Context(), b, o); err != nil || len(r.Results) != 1 {
			t.Error(err)
		}
		twice := strings.Replace(string(whole), `"results": [`, `"results": [`+string(whole[strings.Index(string(whole), `"results": [`)+len(`"results": [`):strings.LastIndex(string(whole), "]")])+",", 1)
		if err := os.WriteFile(name, []byte(twice), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(name); err == nil || !strings.Contains(err.Error(), "is there twice") {
			t.Error(err)
		}
	})
}
