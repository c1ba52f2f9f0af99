package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/demo"
)

const unprivileged = 65534

// TestDemo runs the demo as an ordinary user does, where this one may become one,
// and reads everything it writes.
func TestDemo(t *testing.T) {
	dir := filepath.Join(filepath.Dir(csig), "demo")
	cred := ordinaryUser(t)
	if cred == nil {
		exactDemo(t, t.TempDir(), nil, software)
		return
	}
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, unprivileged, unprivileged)); err != nil {
		t.Fatal(err)
	}
	exactDemo(t, dir, cred, software)
}

// ordinaryUser is one who may run csig from the tests' folder; nil where this one may become no other.
func ordinaryUser(t *testing.T) *syscall.Credential {
	t.Helper()
	if ids := strings.Fields(string(readFile(t, "/proc/self/uid_map"))); len(ids) == 3 && ids[2] == "1" {
		return nil
	}
	// The parents of a temporary directory are its owner's alone.
	if err := os.Chmod(filepath.Dir(csig), 0o755); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
}

// variant is a kind of fabric that the demo builds.
type variant struct {
	args  []string
	kinds []demo.KindSummary // Δt of each, and the age that its median stays below
}

func ofKind(k demo.Kind, interval, median time.Duration) demo.KindSummary {
	return demo.KindSummary{Kind: k, IntervalNS: int64(interval), AgeP50: median}
}

var software = variant{kinds: []demo.KindSummary{ofKind(demo.Software, 100*time.Millisecond, 100*time.Millisecond)}}

// TestLongNativeDemo runs a path of native hops, and mixed ones with each interval of those, as the user
// that runs the tests.
func TestLongNativeDemo(t *testing.T) {
	if !mayLoad(t, "--native") {
		return
	}
	const ms = time.Millisecond
	mixed := func(interval, median time.Duration, args ...string) variant {
		return variant{append([]string{"--mixed"}, args...), []demo.KindSummary{ofKind(demo.Software, 100*ms, 100*ms), ofKind(demo.Native, interval, median)}}
	}
	for name, v := range map[string]variant{
		"native, by itself 1 ms":         {[]string{"--native"}, []demo.KindSummary{ofKind(demo.Native, ms, 3*ms/2)}},
		"software 100 ms, native 0.1 ms": mixed(ms/10, ms, "--native-interval", "100us"),
		"software 100 ms, native 1 ms":   mixed(ms, 3*ms/2),
		"software 100 ms, native 10 ms":  mixed(10*ms, 10*ms, "--native-interval", "10ms"),
	} {
		t.Run(name, func(t *testing.T) { exactDemo(t, t.TempDir(), nil, v) })
	}
}

// mayLoad tells whether this user may load BPF programs; else it wants the demo to say so.
func mayLoad(t *testing.T, arg string) bool {
	t.Helper()
	m := readFile(t, "/proc/self/uid_map")
	if strings.Join(strings.Fields(string(m)), " ") == "0 0 4294967295" {
		return true
	}
	if out, err := exec.Command(csig, "demo", arg, "--duration", "1s").CombinedOutput(); err == nil || !bytes.Contains(out, []byte("CAP_BPF")) {
		t.Errorf("csig demo %s without the right to load BPF programs: %v\n%s", arg, err, out)
	}
	return false
}

// exactDemo wants every sample of the steady state exact: one wrong one fails. A run of which a busy
// machine left too much unjudged to say anything, or lost or delayed probes, is made again.
func exactDemo(t *testing.T, dir string, cred *syscall.Credential, v variant) {
	t.Helper()
	for range 5 {
		err := runDemo(t, dir, cred, v)
		if err == nil {
			return
		}
		t.Log(err)
		if errors.Is(err, errWrong) {
			break
		}
	}
	t.Fatal("no run is exact")
}

// runDemo runs the demo once and reads everything it writes. The error is for
// samples that are not right; anything else ends the test.
func runDemo(t *testing.T, dir string, cred *syscall.Credential, v variant) error {
	t.Helper()
	svg, pcap := filepath.Join(dir, "demo.svg"), filepath.Join(dir, "demo.pcap")
	for _, file := range []string{svg, pcap} { // of a run before, which csig does not overwrite
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(csig, append([]string{"demo", "--json", "--duration", "8s", "--svg", svg, "--pcap", pcap}, v.args...)...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Pdeathsig: syscall.SIGKILL}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	runtime.LockOSThread() // with which the demo would end
	err := cmd.Run()
	runtime.UnlockOSThread()
	if err != nil {
		t.Fatalf("csig demo: %v\n%s", err, stderr.String())
	}
	dec := json.NewDecoder(&stdout)
	dec.DisallowUnknownFields()
	var res demo.Result
	if err := dec.Decode(&res); err != nil {
		t.Fatal(err)
	}
	checkDemo(t, &res)
	if res.Summary.Lost == 0 { // one that comes after the end is in the capture alone
		checkCapture(t, &res, pcap)
	}
	b, err := os.ReadFile(svg)
	if err != nil || !bytes.Contains(b, []byte("S by s2:swp3")) {
		t.Errorf("the timeline does not show s2 (%v)", err)
	}
	for _, k := range v.kinds {
		if len(v.args) > 0 && !bytes.Contains(b, []byte(fmt.Sprintf("S by %s hops, Δt %v", k.Kind, time.Duration(k.IntervalNS)))) {
			t.Errorf("the picture has no ages of %s hops", k.Kind)
		}
	}
	if err := checkKinds(t, &res, v); err != nil {
		return err
	}
	return checkSamples(&res)
}

// checkKinds holds the summaries of the kinds of hops against what is wanted of them.
func checkKinds(t *testing.T, r *demo.Result, v variant) error {
	t.Helper()
	if len(r.Summary.Kinds) != len(v.kinds) {
		t.Fatalf("kinds %+v, want %+v", r.Summary.Kinds, v.kinds)
	}
	for i, k := range r.Summary.Kinds {
		want := v.kinds[i]
		t.Logf("%+v", k)
		if k.Kind != want.Kind || k.IntervalNS != want.IntervalNS {
			t.Errorf("%+v, want %+v", k, want)
		}
		switch {
		case k.Exact == 0:
			return fmt.Errorf("no exact probe is of %s hops", k.Kind)
		case k.AgeP50 <= 0:
			return fmt.Errorf("signals of %s hops are %v old at the median", k.Kind, k.AgeP50)
		case k.AgeP50 > want.AgeP50:
			return fmt.Errorf("signals of %s hops with Δt %v are %v old at the median, want %v at most: %w", k.Kind, time.Duration(k.IntervalNS), k.AgeP50, want.AgeP50, errBusy)
		}
	}
	return nil
}

// errWrong is of a run with a sample that is wrong.
var errWrong = errors.New("wrong")

// mostUnjudged is how many of a hundred probes may have no judge: what a machine kept from its
// turn costs, and of 100 us, which one frame takes of the link, what may be of two intervals.
const mostUnjudged = 10

// errBusy is of a run without a clear result, since the machine was late with it.
var errBusy = errors.New("the machine is too busy")

// checkSamples compares the samples with the demo's documented limits.
func checkSamples(r *demo.Result) error {
	s := r.Summary
	steady := s.Probes - s.Settling - s.Unjudged - s.Lost
	switch {
	case steady < s.Probes/2 || s.Unjudged > s.Probes*mostUnjudged/100:
		return fmt.Errorf("%w: of %d probes %d were on their way near a load step and %d had no judge", errBusy, s.Probes, s.Settling, s.Unjudged)
	case s.Exact != steady || s.WrongLocator != 0:
		var which []string
		for i := range r.Probes {
			if p := &r.Probes[i]; !p.Settling && !p.Unjudged && (!p.Exact || p.Locator != p.TruthLocator) && len(which) < 10 {
				which = append(which, fmt.Sprintf("\n%+v", *p))
			}
		}
		return fmt.Errorf("%w: of %d steady probes %d are exact, %d within one bucket, %d name the wrong hop; %d more were not judged:%s", errWrong, steady, s.Exact, s.WithinOne, s.WrongLocator, s.Unjudged, strings.Join(which, ""))
	case s.Probes < 1000: // 1,600 on a machine that has the time
		return fmt.Errorf("%w: %d probes sent in 8 s", errBusy, s.Probes)
	case s.Lost != 0:
		return fmt.Errorf("%d of %d probes are lost", s.Lost, s.Probes)
	case s.AgeP50 <= 0 || s.AgeP99 < s.AgeP50:
		return fmt.Errorf("the signal's age is %v at the median and %v at p99", s.AgeP50, s.AgeP99)
	case s.AgeP99 > 200*time.Millisecond:
		return fmt.Errorf("the signal's age is %v at the median and %v at p99; windows are 100 ms apart: %w", s.AgeP50, s.AgeP99, errBusy)
	}
	for i := range r.Probes {
		if p := &r.Probes[i]; p.Age <= 0 && !p.Unjudged {
			return fmt.Errorf("a signal from the future: %+v", p)
		}
	}
	// The bottleneck moved, and the receiver saw it move.
	for _, sig := range []string{"abw", "abwc"} {
		for _, h := range r.Hops {
			if !slices.ContainsFunc(r.Probes, func(p demo.Probe) bool {
				return p.Signal == sig && p.Locator == h.Locator && p.Exact && !p.Settling
			}) {
				return fmt.Errorf("no exact %s probe names %s", sig, h.Locator)
			}
		}
	}
	return nil
}

// checkDemo holds the document against what every run has to show.
func checkDemo(t *testing.T, r *demo.Result) {
	t.Helper()
	s := r.Summary
	t.Logf("%+v", s)
	if r.Format != demo.Format || len(r.Probes) != s.Probes-s.Lost || s.WithinOne < s.Exact {
		t.Errorf("format %q, %d probes listed: %+v", r.Format, len(r.Probes), s)
	}
	var again demo.Summary // counted from the list
	for i := range r.Probes {
		switch p := &r.Probes[i]; {
		case p.Settling:
			again.Settling++
		case p.Unjudged:
			again.Unjudged++
			if p.Exact || p.TruthLocator != "" {
				t.Errorf("a probe without a truth is held against one: %+v", p)
			}
		case p.Exact:
			again.Exact++
		}
	}
	if again.Settling != s.Settling || again.Unjudged != s.Unjudged || again.Exact != s.Exact {
		t.Errorf("the probes listed count as %+v, the summary has %+v", again, s)
	}
	if len(r.Hops) < 3 || len(r.Steps) < 3 {
		t.Fatalf("%d hops, %d load steps, want 3 or more", len(r.Hops), len(r.Steps))
	}
	for i, step := range r.Steps[1:] {
		if dwell := step.Time.Sub(r.Steps[i].Time); dwell < 20*time.Duration(r.IntervalNS) {
			t.Errorf("load step %d lasts %v, less than 20 windows", i, dwell)
		}
	}
}

// checkCapture reads the capture with tshark and docs/csig.lua.
func checkCapture(t *testing.T, r *demo.Result, pcap string) {
	t.Helper()
	lua, err := filepath.Abs("../docs/csig.lua")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("tshark", "-X", "lua_script:"+lua, "-r", pcap, "-T", "fields", "-e", "csig.t", "-e", "csig.s", "-e", "csig.lm")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatal("this test needs tshark: apt-get install tshark")
	}
	if err != nil {
		t.Fatalf("tshark: %v\n%s", err, stderr.String())
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	var want []string
	for _, p := range r.Probes {
		want = append(want, fmt.Sprintf("%d\t%d\t%d", slices.Index([]string{"abw", "abwc"}, p.Signal), p.S, p.LM))
	}
	if !slices.Equal(got, want) {
		t.Errorf("tshark reads %d tags from the capture, csig listed %d probes; first ones %q and %q", len(got), len(want), got[:min(3, len(got))], want[:min(3, len(want))])
	}
}
