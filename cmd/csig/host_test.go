package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/hosts/tcp"
)

// TestHostStatusText has connections of every kind as a table.
func TestHostStatusText(t *testing.T) {
	age := (76 * time.Millisecond).Nanoseconds()
	s := &tcp.Status{Host: "h1", Interface: "eth0", Control: tcp.Control{Wanted: tcp.ControlCSIG}, Flows: []tcp.Flow{
		{Local: "10.0.0.1:40000", Remote: "10.0.0.2:443", Peer: "h2", State: tcp.FlowTagged, Control: "csig", Why: "the signal comes", AgeNS: &age, Learned: []tcp.Reading{
			{Signal: "abw", S: 17, Range: "3.55–4.5 Mbit/s", LM: 5, Ports: []string{"s1:up"}, AgeNS: age},
			{T: 1, Signal: "abwc", S: 9, Range: "1–1.5 %", LM: 6, Ports: []string{"s1:a", "s2:b"}, AgeNS: age},
		}},
		{Local: "10.0.0.1:40001", Remote: "10.0.0.9:443", State: tcp.FlowProbing, Control: "bbr", Why: "the port's agent is gone", AgeNS: &age, Learned: []tcp.Reading{
			{Signal: "abw", S: 31, LM: 126, Range: "9 Gbit/s and above", Note: "none"}, {T: 1, Signal: "abwc", LM: 125, Range: "0", Note: "stale"}, {T: 1, Signal: "abwc", LM: 99, Range: "0"},
		}},
		{Local: "10.0.0.1:40002", Remote: "10.0.0.9:444", State: tcp.FlowProbing, Control: "bbr", Why: "no signal has come"},
	}}
	want := `host h1 at eth0: 3 connections with a peer that reflects tags, 1 of them with tags now
1 connection under bbr: no signal has come
1 connection under bbr: the port's agent is gone
1 connection under csig: the signal comes

LOCAL           REMOTE        PEER  STATE    CONTROL  SIGNAL  S   LEFT                BOTTLENECK                      AGE
10.0.0.1:40000  10.0.0.2:443  h2    tagged   csig  abw     17  3.55–4.5 Mbit/s     s1:up                           76ms
10.0.0.1:40000  10.0.0.2:443  h2    tagged   csig  abwc    9   1–1.5 %             s1:a or s2:b                    76ms
10.0.0.1:40001  10.0.0.9:443  -     probing  bbr  abw     31  9 Gbit/s and above  none: no port replaced the tag  0s
10.0.0.1:40001  10.0.0.9:443  -     probing  bbr  abwc    0   0                   stale: the port's agent is gone 0s
10.0.0.1:40001  10.0.0.9:443  -     probing  bbr  abwc    0   0                   locator 99, of no port on the way  0s
10.0.0.1:40002  10.0.0.9:444  -     probing  bbr  -       -   -                   -                               -
`
	squeeze := func(text string) string {
		lines := strings.Split(text, "\n")
		for i := range lines {
			lines[i] = strings.Join(strings.Fields(lines[i]), " ")
		}
		return strings.Join(lines, "\n")
	}
	if got := hostStatusText(s, 120); squeeze(got) != squeeze(want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	s.Trouble, s.More, s.Control.Trouble = "eth0 is gone", true, "the kernel has no cubic"
	s.Counts.DatagramsSent, s.Counts.DatagramsReceived = 7, 5
	got := hostStatusText(s, 120)
	for _, line := range []string{"no connection has tags: eth0 is gone\n", "csig's congestion control has no connection: the kernel has no cubic\n", "There are more than the 3 connections that are shown.\n", "datagrams with tags, as programs asked: 7 sent, 5 received\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("there is no line %q:\n%s", line, got)
		}
	}
	s.Control.Wanted = tcp.ControlNative
	if got := hostStatusText(s, 120); strings.Contains(got, "under") {
		t.Errorf("it says why, though the fleet file has no control: csig:\n%s", got)
	}
}

// TestHostCheckText has a line for each part, and what to do below it.
func TestHostCheckText(t *testing.T) {
	c := &tcp.Check{Parts: []tcp.Part{
		{Name: "rights", OK: true, Needed: true, Reason: "this process may load BPF programs"},
		{Name: "tcx", Needed: true, Reason: "Linux 6.1.0 has no tcx", Next: "use Linux 6.6 or newer"},
		{Name: "gro", Reason: "there is no CONFIG_VLAN_8021Q", Next: "use a kernel with it"},
	}}
	want := `ok  rights: this process may load BPF programs
no  tcx: Linux 6.1.0 has no tcx
    use Linux 6.6 or newer
--  gro: there is no CONFIG_VLAN_8021Q
    use a kernel with it

csig host run does not work here: 1 part missing.
`
	if got := hostCheckText(c, 80); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	c.Parts = c.Parts[:1]
	if got := hostCheckText(c, 80); !strings.HasSuffix(got, "\n\ncsig host run works here.\n") {
		t.Errorf("got:\n%s", got)
	}
}

// TestHostStatusCheck has a line and an exit code for each state of a host.
func TestHostStatusCheck(t *testing.T) {
	for _, row := range []struct {
		tags, control string
		code          int
		want          string
	}{
		{"", "", checkOK, "host h1 at eth0: 0 connections"},
		{"", "no cubic", checkWarning, "csig's congestion control has no connection: no cubic; host h1"},
		{"eth0 is gone", "no cubic", checkCritical, "no connection has tags: eth0 is gone; csig's congestion control has no connection: no cubic; host h1"},
	} {
		code, why := judgeHost(&tcp.Status{Host: "h1", Interface: "eth0", Trouble: row.tags, Control: tcp.Control{Wanted: tcp.ControlCSIG, Trouble: row.control}})
		if code != row.code || !strings.HasPrefix(why, row.want) {
			t.Errorf("%+v: %d %s", row, code, why)
		}
	}
	dir := t.TempDir()
	out, _, code := runIn(dir, []string{"host", "status", "--check", "--json", "--socket", filepath.Join(dir, "host.sock")})
	if code != checkCritical || !strings.Contains(out, `"format": "csig.host-status-check/v1"`) || !strings.Contains(out, `"status": null`) || !strings.Contains(out, errNoHost.Error()) {
		t.Errorf("%d %s", code, out)
	}
}

// TestHostMetricsPage has docs/hosts.md list every metric of csig host run.
func TestHostMetricsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range tcp.MetricNames {
		if !strings.Contains(string(page), "| `"+m[0]+"` | "+m[1]+" |\n") {
			t.Errorf("docs/hosts.md has no %s", m[0])
		}
	}
}
