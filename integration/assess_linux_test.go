package integration

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// csig assess on a switch finds its ports, what the kernel takes and how fresh
// the counters are, and changes nothing; the fleet file that --init prints is
// one that the agent runs with.
func TestAssessThisMachine(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	before := b.ruleset(t)
	run := func(args ...string) []byte {
		t.Helper()
		cmd := b.s1.Command(csig, args...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("csig %s: %v\n%s", strings.Join(args, " "), err, errs.String())
		}
		return out
	}

	var res struct {
		Level  string
		Update struct{ Level string }
		Ports  []struct {
			Name, Kind, Bridge, Qdisc, Excluded string
			Up                                  bool
			Speed                               uint64 `json:"speed_bps"`
			SpeedFrom                           string `json:"speed_from"`
		}
		Readings   int
		ReadMaxNS  int64 `json:"read_max_ns"`
		ShortestNS int64 `json:"shortest_interval_ns"`
		Refresh    struct{ Kind string }
	}
	if err := json.Unmarshal(run("assess", "--json", "--readings", "5", "--every", "20ms"), &res); err != nil {
		t.Fatal(err)
	}
	if res.Level != "software" || res.Update.Level != "full" || res.Readings != 5 || res.Refresh.Kind != "live" || res.ReadMaxNS <= 0 || res.ShortestNS < int64(time.Millisecond) {
		t.Errorf("%+v", res)
	}
	found := 0
	for _, p := range res.Ports {
		switch p.Name {
		case "swp1", "swp2", "swp3":
			found++
			if p.Excluded != "" || p.Kind != "veth" || p.Bridge == "" || !p.Up {
				t.Errorf("%+v", p)
			}
			if shaped := p.Name == "swp3"; shaped != strings.HasPrefix(p.Qdisc, "tbf at 50 Mbit/s") || shaped != (p.Speed == capacity && p.SpeedFrom == "tbf rate") {
				t.Errorf("who shapes %s: %+v", p.Name, p)
			}
		default:
			if p.Excluded == "" {
				t.Errorf("%s is taken for an egress port: %+v", p.Name, p)
			}
		}
	}
	if found != 3 {
		t.Errorf("%d of the switch's three ports were found: %+v", found, res.Ports)
	}

	text := run("assess", "--init", "--readings", "3", "--every", "20ms")
	fleet, err := inventory.Parse("init.yaml", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	d, err := fleet.LocalDevice()
	if err != nil || len(d.Ports) != 3 || d.Ports[2].Name != "swp3" || d.Ports[2].Speed != capacity || d.Ports[0].Speed != 0 || !strings.Contains(string(text), "FILL IN speed") {
		t.Errorf("%v\n%s", err, text)
	}
	file := filepath.Join(b.dir, "init.yaml")
	writeFile(t, file, text)
	run("inventory", "check", "-i", file)
	if out := run("assess", "-i", file, "--readings", "3", "--every", "20ms"); !strings.Contains(string(out), "local, software: it takes the rules") || !strings.Contains(string(out), "counters are live") {
		t.Errorf("assessed with its own file:\n%s", out)
	}

	socket := filepath.Join(b.dir, "init.sock")
	agent := b.s1.Command(csig, "agent", "-i", file, "--dry-run", "--socket", socket)
	var log bytes.Buffer
	agent.Stderr = &log
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(patience, func() { _ = agent.Process.Kill() })
	defer limit.Stop()
	client := api.NewClient(socket)
	defer client.Close()
	for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
		s, err := client.Status(t.Context())
		if err == nil && s.Cycle.Count > 1 {
			if !s.Shadow || len(s.Ports) != 3 {
				t.Errorf("%+v", s)
			}
			break
		}
		if agent.Process.Signal(syscall.Signal(0)) != nil {
			break // it ended: Wait reports how
		}
	}
	_ = agent.Process.Signal(os.Interrupt) // it may have ended
	if err := agent.Wait(); err != nil {
		t.Errorf("the agent ended with %v\n%s", err, log.String())
	}
	if after := b.ruleset(t); after != before {
		t.Errorf("something was changed:\n%s", after)
	}
}

// A machine without a port for it has no fleet file, and the reason is printed.
func TestAssessWithoutPorts(t *testing.T) {
	t.Parallel()
	empty := newHost(t, "empty")
	out, err := empty.Command(csig, "assess", "--init").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no network device that can be an egress port") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = empty.Command(csig, "assess").CombinedOutput(); err != nil || !strings.Contains(string(out), "No network device of this machine can be an egress port") {
		t.Errorf("%v\n%s", err, out)
	}
}
