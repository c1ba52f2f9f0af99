package integration

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/hosts/tcp"
)

// change writes another fleet file of a host whose csig host run runs.
func (b *tcpBed) change(h *tcpHost, from, to string) {
	b.t.Helper()
	if !strings.Contains(b.text, from) {
		b.t.Fatalf("the fleet file has no %q", from)
	}
	b.text = strings.Replace(b.text, from, to, 1)
	file := b.file(h)
	if err := os.Rename(file, file+".new"); err != nil { // as an editor does
		b.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		b.t.Fatal(err)
	}
}

// logs waits until a host's log has so many lines with a text.
func (b *tcpBed) logs(h *tcpHost, text string, times int) {
	b.t.Helper()
	if !within(patience, func() bool { return strings.Count(h.run.log.String(), text) >= times }) {
		b.t.Fatalf("%s: the log has no %q", h.name, text)
	}
}

// of is a connection by its remote end.
func of(s *tcp.Status, remote string) *tcp.Flow {
	if i := slices.IndexFunc(s.Flows, func(f tcp.Flow) bool { return f.Remote == remote }); i >= 0 {
		return &s.Flows[i]
	}
	return nil
}

// untaggedAfter counts the segments with data that arrived at the server of a port: those with a tag, and behind the first of them
// those without though a reflection had come to the sender in the half of the time for which it has tags leave.
func untaggedAfter(atServer, atSender []tcpPacket, port uint16) (tagged, untagged int) {
	var reflected time.Time
	next := 0
	for i := range atServer {
		p := &atServer[i]
		if p.dport != port || p.payload == 0 {
			continue
		}
		for ; next < len(atSender) && atSender[next].at.Before(p.at); next++ {
			if q := &atSender[next]; q.sport == port && len(q.csig) == 4 {
				reflected = q.at
			}
		}
		switch {
		case p.tag:
			tagged++
		case tagged > 0 && p.at.Sub(reflected) < 100*time.Millisecond:
			untagged++
		}
	}
	return tagged, untagged
}

// TestHostTCPReloads changes the fleet file under connections: those that it still has keep their tags, without one frame that has none.
func TestHostTCPReloads(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.giveRoom()
	const one, other = "10.0.0.2:5201", "10.0.0.2:5202"
	b.text = strings.Replace(b.text, "10.0.0.1, tcp: {to: [10.0.0.0/24]}", "10.0.0.1, tcp: {to: [10.0.0.0/24], ports: [5201]}", 1)
	b.start(b.h1)
	b.start(b.h2)
	b.serve(b.h2, 5201)
	b.serve(b.h2, 5202)
	at1, at2 := b.watch(b.h1), b.watch(b.h2)
	first := b.dial(b.h1, one)
	paused := new(atomic.Bool)
	go func() { // little and often: no queue, so that reflections never pause
		for {
			if !paused.Load() {
				if _, err := first.Write([]byte("data")); err != nil {
					return
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	before := b.await(b.h1, "the connection has tags", func(s *tcp.Status) bool {
		f := of(s, one)
		return f != nil && f.State == tcp.FlowTagged && f.Tags > 20
	})
	b.change(b.h1, "ports: [5201]", "ports: [5201, 5202]")
	b.logs(b.h1, "fleet file reloaded", 1)
	second := b.dial(b.h1, other)
	if _, err := second.Write([]byte("data")); err != nil {
		t.Fatal(err)
	}
	s := b.await(b.h1, "both have tags", func(s *tcp.Status) bool {
		f := of(s, one)
		return of(s, other) != nil && f != nil && f.Tags > of(before, one).Tags+100
	})
	if s.Counts.Connections != 2 || s.Counts.Tagged < before.Counts.Tagged {
		t.Errorf("counts began again: %+v, then %+v", before.Counts, s.Counts)
	}
	if tagged, untagged := untaggedAfter(at2(), at1(), 5201); untagged > 0 {
		t.Errorf("%d segments have a tag, and then %d none", tagged, untagged)
	}

	// A file that cannot be in force.
	b.change(b.h1, "ports: [5201, 5202]", "ports: [5201, 5202], cgroup: /proc")
	b.logs(b.h1, "fleet file not reloaded: TCP stays as it is", 1)
	if text := b.h1.run.log.String(); !strings.Contains(text, "/proc is not below") {
		t.Errorf("the log does not have the reason:\n%s", text)
	}
	tags := b.await(b.h1, "it is as before", func(s *tcp.Status) bool { return of(s, one) != nil && of(s, other) != nil })
	b.await(b.h1, "it has tags", func(s *tcp.Status) bool { return of(s, one).Tags > of(tags, one).Tags })

	// Another profile: what was read before means something else, and is forgotten.
	paused.Store(true)
	if !within(patience, func() bool {
		return of(b.await(b.h1, "it answers", func(*tcp.Status) bool { return true }), one).State == tcp.FlowProbing
	}) {
		t.Error("the connection has tags while nothing is sent")
	}
	b.change(b.h1, ", cgroup: /proc", "")
	b.change(b.h1, "abw: {buckets: log-100M}", "abw: {buckets: log-10G}")
	b.await(b.h1, "readings are forgotten", func(s *tcp.Status) bool { return of(s, one) != nil && len(of(s, one).Learned) == 0 })
	paused.Store(false)
	b.await(b.h1, "there are new ones", func(s *tcp.Status) bool { return len(of(s, one).Learned) == 2 && of(s, one).State == tcp.FlowTagged })

	// A connection that the file has no more ends to have tags.
	b.change(b.h1, "ports: [5201, 5202]", "ports: [5202]")
	b.await(b.h1, "it is gone", func(s *tcp.Status) bool { return of(s, one) == nil && of(s, other) != nil })
	mark := fmt.Sprintf("the end of it, %d", time.Now().UnixNano())
	if _, err := first.Write([]byte(mark)); err != nil {
		t.Fatal(err)
	}
	if !within(patience, func() bool {
		return slices.ContainsFunc(at2(), func(p tcpPacket) bool { return p.dport == 5201 && strings.Contains(string(p.frame), mark[:20]) })
	}) {
		t.Fatal("it does not arrive")
	}
	for _, p := range at2() {
		if p.dport == 5201 && strings.Contains(string(p.frame), mark[:20]) && p.tag {
			t.Errorf("a tag of a connection that the file has no more: %+v", p)
		}
	}
}

// TestHostControlReloads changes the fleet file under a connection that csig's congestion control has.
func TestHostControlReloads(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.giveRoom()
	b.takeControl()
	b.startSwitches()
	b.serve(b.h2, 5201)
	b.start(b.h1)
	b.start(b.h2)
	c := b.dialUnder(b.h1, "10.0.0.2:5201", "reno")
	send(c)
	s := b.under(b.h1, 1, tcp.ControlCSIG, "the signal comes")
	tags := s.Flows[0].Tags
	b.change(b.h1, "tcp: {to: [10.0.0.0/24], control", "tcp: {to: [10.0.0.0/24], ports: [5201], control")
	b.logs(b.h1, "fleet file reloaded", 1)
	s = b.await(b.h1, "it goes on", func(s *tcp.Status) bool {
		return len(s.Flows) == 1 && s.Flows[0].Tags > tags+100 && s.Flows[0].Control == tcp.ControlCSIG
	})
	// An agent that was late made the port stale: that is another matter.
	if n := s.Control.Counts; n.Given-n.Stale != 1 || n.Stopped != 0 || control(t, c) != s.Control.Name {
		t.Errorf("%+v, %+v", s.Control, s.Flows)
	}
	// Other shares are another control: it has connections to come, and those that are open stay with the former.
	b.change(b.h1, "ports: [5201], control: csig", "ports: [5201], control: csig, jump: 1/16")
	b.logs(b.h1, "fleet file reloaded", 2)
	tags = s.Flows[0].Tags
	another := b.dialUnder(b.h1, "10.0.0.2:5201", "reno")
	send(another)
	s = b.under(b.h1, 2, tcp.ControlCSIG, "the signal comes")
	if n := s.Control.Counts; n.Given-n.Stale != 2 || s.Control.Jump != "1/16" {
		t.Errorf("%+v", s.Control)
	}
	b.change(b.h1, ", control: csig, jump: 1/16", "")
	b.await(b.h1, "both are given back", func(s *tcp.Status) bool {
		return len(s.Flows) == 2 && s.Flows[0].Control == "reno" && s.Flows[1].Control == "reno" && s.Flows[0].State == tcp.FlowTagged
	})
	b.change(b.h1, "ports: [5201]", "ports: [5201], control: csig")
	b.under(b.h1, 2, tcp.ControlCSIG, "the signal comes")
}

// TestHostTCPPinned has the programs stay while csig host run ends and comes again, as at an upgrade, in several ways: no frame goes without a tag.
func TestHostTCPPinned(t *testing.T) {
	t.Parallel()
	needBPF(t)
	b := newTCPBed(t)
	b.giveRoom()
	group := newControlGroup(t)
	b.text = strings.Replace(b.text, "tcp: {to: [10.0.0.0/24]}}\n  - {name: h2", "tcp: {to: [10.0.0.0/24], control: csig, cgroup: "+group+"}}\n  - {name: h2", 1)
	b.startSwitches()
	if err := b.load.SetRate(60_000_000); err != nil {
		t.Fatal(err)
	}
	b.h1.pin = filepath.Join(bpffs, filepath.Base(group))
	t.Cleanup(func() { os.RemoveAll(b.h1.pin) })
	there := func() int {
		in, out, all := programsAt(t, b.h1.node, b.h1.nic.Index(), group)
		return in + out + all
	}
	b.start(b.h2)
	b.serve(b.h2, 5201)
	at1, at2 := b.watch(b.h1), b.watch(b.h2)
	b.start(b.h1)
	dir, err := os.Open(group)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	// A byte each few milliseconds, from inside of the control group.
	inside := b.h1.node.Command("busybox", "sh", "-c", "while busybox usleep 5000; do echo data; done | busybox nc 10.0.0.2 5201")
	inside.SysProcAttr.UseCgroupFD, inside.SysProcAttr.CgroupFD = true, int(dir.Fd())
	inside.SysProcAttr.Setpgid = true
	if err := inside.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-inside.Process.Pid, syscall.SIGKILL)
		_ = inside.Wait()
	})
	tagged := func(what string, than uint64) uint64 {
		t.Helper()
		s := b.await(b.h1, what, func(s *tcp.Status) bool {
			return len(s.Flows) == 1 && s.Flows[0].State == tcp.FlowTagged && s.Flows[0].Tags > than+20 && len(s.Flows[0].Learned) == 2 && s.Flows[0].Control == tcp.ControlCSIG
		})
		return s.Flows[0].Tags
	}
	tags := tagged("the connection has tags", 0)
	name := b.await(b.h1, "its control has a name", func(s *tcp.Status) bool { return s.Control.Name != "" }).Control.Name
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		_ = b.h1.run.cmd.Process.Signal(sig)
		<-b.h1.run.ended
		before := len(at2())
		if !within(patience, func() bool { return len(at2()) > before+100 }) {
			t.Fatal("the connection does not go on")
		}
		if n := there(); n != 3 {
			t.Errorf("after %v %d programs are there", sig, n)
		}
		beside := b.dialUnder(b.h1, "10.0.0.2:5201", "reno").(*net.TCPConn)
		if err := choose(beside, name); err != nil {
			t.Errorf("after %v its congestion control is not there: %v", sig, err)
		}
		beside.Close()
		b.start(b.h1)
		if n := there(); n != 3 {
			t.Errorf("after the start behind %v %d programs are there", sig, n)
		}
		tags = tagged(fmt.Sprintf("the connection has tags after %v and a start", sig), tags)
	}
	// A changed fleet file, with the names in place.
	b.change(b.h1, "tcp: {to: [10.0.0.0/24], control", "tcp: {to: [10.0.0.0/24], ports: [5201], control")
	b.logs(b.h1, "fleet file reloaded", 1)
	tagged("the connection has tags after a reload", tags)
	if tagged, untagged := untaggedAfter(at2(), at1(), 5201); untagged > 0 || tagged == 0 {
		t.Errorf("%d segments have a tag, and then %d none", tagged, untagged)
	}
	if s := b.await(b.h1, "it answers", func(*tcp.Status) bool { return true }); s.Control.Counts.Refused > 0 || s.Control.Trouble != "" {
		t.Errorf("%+v", s.Control)
	}
	// A part of what was left is removed.
	_ = b.h1.run.cmd.Process.Signal(syscall.SIGTERM)
	<-b.h1.run.ended
	if n := there(); n != 3 {
		t.Errorf("after a reload and the end %d programs are there", n)
	}
	if err := os.Remove(filepath.Join(b.h1.pin, "flows")); err != nil {
		t.Fatal(err)
	}
	b.start(b.h1)
	if n := there(); n != 3 {
		t.Errorf("after the start behind a part %d programs are there", n)
	}
	b.await(b.h1, "it runs", func(s *tcp.Status) bool { return s.Trouble == "" })
	// Without names all ends with the process.
	b.h1.kill()
	if err := os.RemoveAll(b.h1.pin); err != nil {
		t.Fatal(err)
	}
	if !within(patience, func() bool { return there() == 0 }) {
		t.Errorf("%d programs are left", there())
	}
	b.h1.pin = t.TempDir() // no BPF file system
	out := exits(t, 1, b.h1.node.Command(csig, "host", "run", "-i", b.file(b.h1), "--socket", b.socket(b.h1), "--pin", b.h1.pin))
	if !strings.Contains(out, "bpf filesystem") || !strings.Contains(out, "mount -t bpf") {
		t.Errorf("%s", out)
	}
}
