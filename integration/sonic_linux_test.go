package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors/sonic/sonictest"
)

const sonicFleet = `
format: csig.fleet/v1
profile:
  name: lab
  tpid: 0x88a8
  interval: 200ms
  signals:
    abw: {buckets: log-100G}
policy: {on_stale: conservative}
vlan_tpids: [0x8100]
devices:
  - name: leaf-1
    platform: sonic
    experimental: true
    local: true
    management: {redis: {databases: %s}}
    ports:
      - {name: Ethernet0, lm: {abw: 5}}
      - {name: Ethernet4, lm: {abw: 6}}
`

// sonicLab is a fake SONiC switch whose counters move, and csig agent on it.
type sonicLab struct {
	t     *testing.T
	sw    *sonictest.Switch
	dir   string
	file  string
	sock  string
	rate  [2]atomic.Uint64 // bit/s of the two ports
	agent *exec.Cmd
	log   bytes.Buffer
}

func newSonicLab(t *testing.T) *sonicLab {
	t.Helper()
	r := sonictest.StartRedis(t)
	l := &sonicLab{t: t, sw: sonictest.NewSwitch(t, r, sonictest.R202311, "Ethernet0", "Ethernet4"), dir: t.TempDir()}
	l.file, l.sock = filepath.Join(l.dir, "leaf.yaml"), filepath.Join(r.Dir, "agent.sock")
	if err := os.WriteFile(l.file, fmt.Appendf(nil, sonicFleet, r.File), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var syncd sync.WaitGroup
	syncd.Go(func() { l.count(ctx) })
	t.Cleanup(func() {
		stop()
		syncd.Wait()
		l.kill(syscall.SIGKILL)
	})
	return l
}

// count is syncd's flex counter.
func (l *sonicLab) count(ctx context.Context) {
	last := time.Now()
	var octets [2]float64
	for tick := time.NewTicker(50 * time.Millisecond); ctx.Err() == nil; <-tick.C {
		now := time.Now()
		for i, port := range []string{"Ethernet0", "Ethernet4"} {
			octets[i] += float64(l.rate[i].Load()) / 8 * now.Sub(last).Seconds()
			oid := fmt.Sprintf("oid:0x100000000000%d", i+1)
			if err := l.sw.Redis.Try(2, "HSET", "COUNTERS_PORT_NAME_MAP", port, oid); err != nil {
				continue // Redis is being stopped
			}
			_ = l.sw.Redis.Try(2, "HSET", "COUNTERS:"+oid, "SAI_PORT_STAT_IF_OUT_OCTETS", uint64(octets[i]),
				"SAI_PORT_STAT_IF_OUT_UCAST_PKTS", uint64(octets[i]/1000), "SAI_PORT_STAT_IF_OUT_NON_UCAST_PKTS", 0)
		}
		last = now
	}
}

// start runs csig agent, in a network namespace of its own: that is what its lock
// belongs to.
func (l *sonicLab) start() {
	l.t.Helper()
	l.agent = exec.Command(csig, "agent", "-i", l.file, "--socket", l.sock)
	l.agent.Stderr = &l.log
	l.agent.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := l.agent.Start(); err != nil {
		l.t.Fatal(err)
	}
}

func (l *sonicLab) kill(sig os.Signal) {
	if l.agent == nil {
		return
	}
	_ = l.agent.Process.Signal(sig)
	_ = l.agent.Wait()
	l.agent = nil
}

// writes is what the ASIC writes into a tag of the best bucket.
func (l *sonicLab) writes(port string) quantize.Tag {
	best, err := quantize.Draft00.Pack(quantize.Tag{T: quantize.MinABW, S: 31, LM: quantize.Draft00.LMNone()})
	if err != nil {
		l.t.Fatal(err)
	}
	return quantize.Draft00.Unpack(l.sw.EgressAll(port, []quantize.TCI{best})[0])
}

// until waits for the ASIC.
func (l *sonicLab) until(what string, ok func() bool) {
	l.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatalf("%s does not come about: Ethernet0 writes %+v, Ethernet4 %+v; orchagent refused %v\n%s",
				what, l.writes("Ethernet0"), l.writes("Ethernet4"), l.sw.Refusals(), l.log.String())
		}
	}
}

// stopPost runs the line that docs/sonic.md gives systemd.
func (l *sonicLab) stopPost(result string) {
	l.t.Helper()
	page := readFile(l.t, "../docs/sonic.md")
	_, line, found := strings.Cut(string(page), "ExecStopPost=/bin/sh -c '")
	line, _, closed := strings.Cut(line, "'\n")
	if !found || !closed {
		l.t.Fatal("docs/sonic.md has no ExecStopPost=")
	}
	line = strings.NewReplacer("csig off", csig+" off", "/etc/csig/leaf.yaml", l.file).Replace(line)
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Env = append(os.Environ(), "SERVICE_RESULT="+result)
	if out, err := cmd.CombinedOutput(); err != nil {
		l.t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// TestSonicAgent: csig agent on a SONiC switch, from its start over restarts of
// the switch's parts to its own death.
func TestSonicAgent(t *testing.T) {
	t.Parallel()
	l := newSonicLab(t)
	l.rate[0].Store(60e9)
	l.start()
	abw, err := quantize.Preset(quantize.MinABW, "log-100G")
	if err != nil {
		t.Fatal(err)
	}
	near := func(port string, lm uint16, load uint64) func() bool {
		low, high := abw.Bucket(100e9-load*104/100), abw.Bucket(100e9-load*96/100)
		return func() bool {
			w := l.writes(port)
			return w.LM == lm && uint32(low) <= w.S && w.S <= uint32(high)
		}
	}
	stale := func(port string) func() bool {
		return func() bool { w := l.writes(port); return w.S == 0 && w.LM == quantize.Draft00.LMStale() }
	}
	l.until("60 Gbit/s on Ethernet0", near("Ethernet0", 5, 60e9))
	l.rate[0].Store(95e9)
	l.rate[1].Store(30e9)
	l.until("95 Gbit/s on Ethernet0", near("Ethernet0", 5, 95e9))
	l.until("30 Gbit/s on Ethernet4", near("Ethernet4", 6, 30e9))

	var out []byte
	l.until("a status of live ports", func() bool {
		out, err = exec.Command(csig, "status", "--socket", l.sock).CombinedOutput()
		return err == nil && strings.Contains(string(out), "Ethernet4") && strings.Contains(string(out), "no lease: after")
	})
	t.Logf("\n%s", out)

	out, err = exec.Command(csig, "counters", "read", "-i", l.file, "--count", "3").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "COUNTERS_DB") || !strings.Contains(string(out), "Ethernet4") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("\n%s", out)

	// orchagent ends: nothing can be withdrawn, and status reports that.
	l.sw.Stop()
	c := api.NewClient(l.sock)
	l.until("status of a switch without orchagent", func() bool {
		s, err := c.Status(t.Context())
		return err == nil && s.DataPlane == api.DataPlaneFrozen
	})
	l.sw.Forget()
	l.sw.Redis.Do(0, "FLUSHDB")
	l.sw.Redis.Do(14, "FLUSHDB")
	l.sw.Start()
	l.until("95 Gbit/s after a restart of orchagent", near("Ethernet0", 5, 95e9))

	// The agent is killed: the entries stay, which is what has no lease means.
	l.kill(syscall.SIGKILL)
	// On a machine that stalls, nothing may have been counted in its last cycle.
	if w := l.writes("Ethernet0"); w.LM != 5 || w.S == 31 {
		t.Errorf("%+v", w)
	}
	// The next one takes over with the fallback, since it does not know since when.
	fell := make(chan bool, 1)
	l.sw.SetOnOp(func(port string) {
		if port == "Ethernet0" && stale(port)() {
			select {
			case fell <- true:
			default:
			}
		}
	})
	l.start()
	l.until("the fallback at a start", func() bool { return len(fell) == 1 })
	l.until("95 Gbit/s after a restart of the agent", near("Ethernet0", 5, 95e9))

	// Redis goes with everything, as at a boot.
	l.sw.Redis.Stop()
	l.sw.Stop()
	l.sw.Forget()
	l.sw.Redis.Start()
	l.sw.Boot()
	l.until("95 Gbit/s after a restart of Redis", near("Ethernet0", 5, 95e9))

	l.kill(syscall.SIGTERM)
	if !stale("Ethernet0")() || !stale("Ethernet4")() {
		t.Errorf("after SIGTERM Ethernet0 writes %+v, Ethernet4 %+v\n%s", l.writes("Ethernet0"), l.writes("Ethernet4"), l.log.String())
	}
	l.stopPost("success")
	if n, _ := l.sw.Entries(""); n == 0 {
		t.Error("ExecStopPost= of a clean stop removes the fallback")
	}
	l.stopPost("signal")
	if n, _ := l.sw.Entries(""); n != 0 || l.sw.Tables() != 0 || l.sw.Redis.Hash(4, "PORT|Ethernet0")["tpid"] != "0x8100" {
		t.Errorf("after csig off: %d entries, %d tables, %v", n, l.sw.Tables(), l.sw.Redis.Hash(4, "PORT|Ethernet0"))
	}
	for _, bad := range l.sw.Refusals() {
		if !strings.Contains(bad, "CREATE_ONLY") { // how it reports that it has the table
			t.Errorf("orchagent refused %v", bad)
		}
	}
}
