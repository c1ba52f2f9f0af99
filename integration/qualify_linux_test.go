package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/qualify"
	"github.com/csig-agent/csig/qualify/qualifytest"
)

// bench runs csig in the namespace of a bed's host, in a folder of its own.
type bench struct {
	t   *testing.T
	bed *qualifytest.Bed
	dir string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t, qualifytest.NewBed(t, 2), t.TempDir()}
	text := fmt.Sprintf(`format: csig.fleet/v1
profile: {name: lab, tpid: 0x9900, interval: 100ms, signals: {abw: {buckets: log-10G}}}
devices:
  - name: sw1
    platform: linux
    management: {netns: /proc/%d/fd/%d}
    ports: [{name: swp1, speed: 10G, lm: 1}, {name: swp2, speed: 10G, lm: 2}]
`, os.Getpid(), b.bed.Switch.FD())
	writeFile(t, filepath.Join(b.dir, "fleet.yaml"), []byte(text))
	return b
}

// atSwitch are the arguments of a run at the switch.
var atSwitch = slices.Clip(strings.Fields("qualify -i fleet.yaml --device sw1 --port swp1=eth1 --port swp2=eth2 --quiet 20ms --model bridge -o out"))

func (b *bench) command(args ...string) (*fabric.Cmd, *bytes.Buffer) {
	cmd, out := b.bed.Host.Command(csig, args...), &bytes.Buffer{}
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, out, out
	return cmd, out
}

// csig runs a command to its end and wants this exit code.
func (b *bench) csig(status int, args ...string) string {
	b.t.Helper()
	cmd := b.bed.Host.Command(csig, args...)
	cmd.Dir = b.dir
	return exits(b.t, status, cmd)
}

// report is the report in the folder out; nil: there is none yet.
func (b *bench) report() *qualify.Report {
	b.t.Helper()
	r, err := qualify.Load(filepath.Join(b.dir, "out", "report.json"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	return r
}

// TestQualify: the command, from the calibration to a fleet file with the facts.
func TestQualify(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, _, err := b.bed.Fabric.Connect(fabric.End{Node: b.bed.Host, Port: "x1"}, fabric.End{Node: b.bed.Host, Port: "x2"}, 1700); err != nil {
		t.Fatal(err)
	}
	if out := b.csig(0, "qualify", "calibrate", "x1", "x2", "--quiet", "20ms", "-o", "cards"); !strings.Contains(out, " 0 fail") {
		t.Errorf("a cable without a switch:\n%s", out)
	}
	if out := b.csig(1, append(atSwitch, "--calibration", "cards/report.json")...); !strings.Contains(out, "other cards") {
		t.Errorf("a calibration of other cards:\n%s", out)
	}
	only := []string{"--only", "tpid,vids,mtu"}
	var r qualify.Report
	if err := json.Unmarshal([]byte(b.csig(0, append(append(atSwitch, only...), "--json")...)), &r); err != nil {
		t.Fatal(err)
	}
	if r.Format != qualify.Format || !r.Complete || r.Count(qualify.Pass) != 3 || r.Switch.Version == "" {
		t.Errorf("%+v", r)
	}
	for _, name := range []string{"report.txt", "report.md", "report.json", "facts.yaml", "pcap/vids.pcap"} {
		if info, err := os.Stat(filepath.Join(b.dir, "out", name)); err != nil || info.Size() < 100 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if out := b.csig(1, append(atSwitch, only...)...); !strings.Contains(out, "--resume") {
		t.Errorf("a folder that has a report:\n%s", out)
	}

	text := readFile(t, filepath.Join(b.dir, "out", "facts.yaml"))
	facts, err := inventory.ParseFacts("facts.yaml", text)
	if err != nil || len(facts) != 1 {
		t.Fatalf("%v, %v", facts, err)
	}
	fleet := readFile(t, filepath.Join(b.dir, "fleet.yaml"))
	for name := range facts {
		with := strings.Replace(string(fleet), "devices:\n", "include: [out/facts.yaml]\ndevices:\n", 1)
		with = strings.Replace(with, "    platform: linux\n", "    platform: linux\n    facts: "+name+"\n", 1)
		writeFile(t, filepath.Join(b.dir, "with.yaml"), []byte(with))
	}
	if out := b.csig(0, "assess", "-i", "with.yaml", "--offline", "--device", "sw1"); !strings.Contains(out, "ran on bridge") {
		t.Errorf("assess does not say where the facts are from:\n%s", out)
	}
}

// TestQualifyInterrupted: Ctrl-C ends a run and undoes it, another run at the same switch
// is refused, and --resume --only tries what it names.
func TestQualifyInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cmd, out := b.command(atSwitch...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if r := b.report(); r != nil && len(r.Results) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no result\n%s", out)
		}
	}
	if out := b.csig(1, append(append([]string{}, atSwitch[:len(atSwitch)-1]...), "other")...); !strings.Contains(out, "another csig agent programs the ports") {
		t.Errorf("a second run at the same switch:\n%s", out)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(out.String(), "interrupted; --resume continues it") {
		t.Fatalf("%v\n%s", err, out)
	}
	before := b.report()
	if before.Complete || before.Touched {
		t.Errorf("%+v", before)
	}
	b.csig(0, append(atSwitch, "--resume", "--only", "dscp")...)
	after := b.report()
	if after.Complete || after.Touched || len(after.Results) < len(before.Results) || !after.Results[0].Began.Equal(before.Results[0].Began) || after.Result("dscp") == nil {
		t.Errorf("%+v", after)
	}
}

// TestLongQualifyKilled: what a run leaves that was killed while it had set up the switch,
// --resume removes, and continues the run; so does csig off.
func TestLongQualifyKilled(t *testing.T) {
	t.Parallel()
	for _, then := range []string{"resume", "off"} {
		t.Run(then, func(t *testing.T) {
			b := newBench(t)
			cmd, out := b.command(append(atSwitch, "--only", "hitless,dscp")...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			setUp := func() bool { r := b.report(); return r != nil && r.Touched && b.rules() > 0 }
			signal := func(s syscall.Signal) {
				t.Helper()
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
				if setUp() {
					// It undoes and sets up again: what it has is looked at while it stands still.
					signal(syscall.SIGSTOP)
					if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
						t.Fatalf("%v\n%s", err, out)
					}
					if setUp() {
						break
					}
					signal(syscall.SIGCONT)
				}
				if time.Now().After(deadline) {
					t.Fatalf("no setup\n%s", out)
				}
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was killed
			args := strings.Fields("off -i fleet.yaml --device sw1")
			if then == "resume" {
				args = append(atSwitch, "--resume")
			}
			b.csig(0, args...)
			if n := b.rules(); n != 0 {
				t.Errorf("%d rule chains are left", n)
			}
			if r := b.report(); then == "resume" && (r.Touched || !r.Complete || r.Result("hitless") == nil) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// rules counts csig's chains at the switch.
func (b *bench) rules() int {
	b.t.Helper()
	out, err := b.bed.Switch.Command("nft", "list", "ruleset").Output()
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Count(string(out), "chain ")
}
