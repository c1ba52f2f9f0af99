package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
)

// fault is something that goes wrong at a switch. run does it and undoes it; then the port
// has to become live again.
type fault struct {
	kind string
	run  func(h *chaosHop) (detail string)
}

// faultsOf are those of a hop.
func faultsOf(h *chaosHop) []fault {
	all := []fault{
		{"agent stopped (SIGSTOP)", (*chaosHop).stopAgent},
		{"rules deleted by hand", (*chaosHop).deleteRules},
		{"foreign table in the way", (*chaosHop).foreignTable},
		{"nftables busy (ERESTART)", (*chaosHop).busy},
		{"notifications lost (ENOBUFS)", (*chaosHop).lostNotifications},
		{"no descriptors left (EMFILE)", (*chaosHop).noDescriptors},
		{"link flaps", (*chaosHop).flap},
		{"port removed and added", (*chaosHop).replug},
		{"good reload", (*chaosHop).goodReload},
		{"bad reload", (*chaosHop).badReload},
		{"disk full", (*chaosHop).fullDisk},
	}
	if h.index != 1 {
		all = append(all, fault{"agent killed (SIGKILL)", (*chaosHop).killAgent})
	}
	if h.snmpd != nil {
		all = append(all,
			fault{"counters frozen", (*chaosHop).freeze},
			fault{"snmpd killed", (*chaosHop).killSnmpd},
			fault{"snmpd stopped", (*chaosHop).stopSnmpd})
	}
	return all
}

// episode is one fault of a hop, until its port is live again.
type episode struct {
	kind, detail     string
	from, undone, to time.Time     // to is zero while it lasts
	stale            time.Duration // stalest S meanwhile
}

// rage does one fault after another until ctx ends, or each once.
func (h *chaosHop) rage(ctx context.Context) {
	var deck []fault
	for rounds := 0; ctx.Err() == nil; {
		if len(deck) == 0 { // each kind once in a round
			if rounds++; rounds > 1 && h.c.length == 0 {
				return
			}
			deck = faultsOf(h)
			h.random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		f := deck[0]
		deck = deck[1:]
		e := &episode{kind: f.kind, from: time.Now()}
		h.mu.Lock()
		h.episodes = append(h.episodes, e)
		h.mu.Unlock()
		detail := f.run(h)
		undone := time.Now()
		h.mu.Lock()
		e.detail, e.undone = detail, undone
		h.mu.Unlock()
		h.live(undone)
		h.mu.Lock()
		e.to = time.Now()
		h.mu.Unlock()
		h.hold(0, time.Second)
	}
}

// hold waits for a time that the seed gives.
func (h *chaosHop) hold(least, most time.Duration) time.Duration {
	d := least + time.Duration(h.random.Int64N(int64(most-least)))
	<-time.After(d) // the length of a fault, and no condition
	return d.Round(time.Millisecond)
}

// during is the fault at a time, or the one before.
func (h *chaosHop) during(at time.Time) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.episodeLocked(at)
	if e == nil {
		return h.name + " before the first fault"
	}
	return fmt.Sprintf("%s, %v after the beginning of %q %s", h.name, at.Sub(e.from).Round(time.Millisecond), e.kind, e.detail)
}

func (h *chaosHop) episodeLocked(at time.Time) *episode {
	for i := len(h.episodes) - 1; i >= 0; i-- {
		if !h.episodes[i].from.After(at) {
			return h.episodes[i]
		}
	}
	return nil
}

func (h *chaosHop) signalAgent(sig syscall.Signal) {
	h.c.t.Helper()
	h.c.check(h.running().cmd.Process.Signal(sig))
}

func (h *chaosHop) killAgent() string {
	_ = h.running().signal(syscall.SIGKILL) // its exit status does not matter
	d := h.hold(0, time.Second)
	h.launch()
	return fmt.Sprintf("started again after %v", d)
}

func (h *chaosHop) stopAgent() string {
	h.signalAgent(syscall.SIGSTOP)
	d := h.hold(50*time.Millisecond, 2*time.Second)
	h.signalAgent(syscall.SIGCONT)
	return fmt.Sprintf("for %v", d)
}

func (h *chaosHop) deleteRules() string {
	what := []string{
		"delete table netdev csig", "flush table netdev csig", "flush set netdev csig lease",
		"flush map netdev csig p_swp3", "flush chain netdev csig p_swp3", "delete chain netdev csig p_swp3",
	}[h.random.IntN(6)]
	end := h.unruled.begin()
	h.nft(what)
	h.cycles()
	end()
	return what
}

func (h *chaosHop) foreignTable() string {
	end := h.unruled.begin()
	h.nft("delete table netdev csig\nadd table netdev csig { comment \"another program's\"; }\nadd chain netdev csig other")
	d := h.hold(50*time.Millisecond, 2*time.Second)
	if d > 20*h.interval {
		h.running().await("the foreign table at "+h.name, func(s *api.Status) bool { return s.DataPlane == api.DataPlaneForeign })
	}
	h.nft("delete table netdev csig")
	h.cycles()
	end()
	return fmt.Sprintf("for %v", d)
}

// busy changes another table all the time: each of csig's transactions is for a generation that
// is over by then.
func (h *chaosHop) busy() string {
	conn, err := nftables.New(nftables.WithNetNSFd(h.FD()), nftables.AsLasting())
	h.c.check(err)
	n, d := 0, 300*time.Millisecond+time.Duration(h.random.Int64N(int64(time.Second)))
	for end := time.Now().Add(d); time.Now().Before(end); n++ {
		t := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyNetdev, Name: "busy"})
		h.c.check(conn.Flush())
		conn.DelTable(t)
		h.c.check(conn.Flush())
	}
	h.c.check(conn.CloseLasting())
	return fmt.Sprintf("%d transactions in %v", 2*n, d.Round(time.Millisecond))
}

// lostNotifications changes more devices than the agent's socket has room for, while it is stopped.
func (h *chaosHop) lostNotifications() string {
	h.signalAgent(syscall.SIGSTOP)
	const changes = 400
	h.c.check(h.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "lost"
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil {
			return err
		}
		l, err := netlink.LinkByName("lost")
		for i := 0; err == nil && i < changes; i++ {
			err = netlink.LinkSetMTU(l, 1000+i)
		}
		return errors.Join(err, netlink.LinkDel(l))
	}))
	h.signalAgent(syscall.SIGCONT)
	return fmt.Sprintf("%d changes of devices", changes)
}

// noDescriptors leaves the agent none to open.
func (h *chaosHop) noDescriptors() string {
	pid := h.running().cmd.Process.Pid
	var before unix.Rlimit
	h.c.check(unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before))
	few := before
	few.Cur = 3
	h.c.check(unix.Prlimit(pid, unix.RLIMIT_NOFILE, &few, nil))
	if !h.waits {
		h.signalAgent(syscall.SIGHUP)
	}
	d := h.hold(50*time.Millisecond, 1500*time.Millisecond)
	h.c.check(unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil))
	if !h.waits {
		h.reload("")
	}
	return fmt.Sprintf("for %v", d)
}

func (h *chaosHop) flap() string {
	n := 1 + h.random.IntN(6)
	end := h.cuts.begin()
	for range n {
		h.carrier(false)
		h.hold(10*time.Millisecond, 400*time.Millisecond)
		h.carrier(true)
		h.hold(10*time.Millisecond, 200*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h.c.check(h.east.WaitUp(ctx))
	end()
	return fmt.Sprintf("%d times", n)
}

func (h *chaosHop) carrier(up bool) {
	h.c.check(h.Do(func() error {
		l, err := netlink.LinkByIndex(h.east.Index())
		if err != nil {
			return err
		}
		if up {
			return netlink.LinkSetUp(l)
		}
		return netlink.LinkSetDown(l)
	}))
}

// replug removes the port with its cable, and adds both again.
func (h *chaosHop) replug() string {
	endRules, endCut := h.unruled.begin(), h.cuts.begin()
	h.c.check(h.Do(func() error {
		l, err := netlink.LinkByIndex(h.east.Index())
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	}))
	h.tap.end()
	d := h.hold(0, 1500*time.Millisecond)
	near, far, err := h.c.Connect(fabric.End{Node: h.Node, Port: h.east.Name, MAC: h.east.MAC}, h.far, 0)
	h.c.check(err)
	h.c.check(errors.Join(near.Shape(capacity), h.tap.listen(far)))
	h.east = near
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h.c.check(errors.Join(h.truth.of(near), near.WaitUp(ctx), far.WaitUp(ctx), h.forward()))
	endCut()
	h.cycles()
	endRules()
	return fmt.Sprintf("after %v", d)
}

// reload has the agent read its file, and waits until it has: mistake is what it finds there.
func (h *chaosHop) reload(mistake string) {
	h.c.t.Helper()
	began := time.Now()
	h.signalAgent(syscall.SIGHUP)
	h.running().await("a reload of "+h.name+" with "+mistake, func(s *api.Status) bool {
		return s.Reload != nil && s.Reload.Time.After(began) && strings.Contains(s.Reload.Error, mistake) && (s.Reload.Error == "") == (mistake == "")
	})
}

// goodReload changes the locators.
func (h *chaosHop) goodReload() string {
	h.locators++
	if h.waits {
		h.c.check(h.running().client.Configure(h.c.t.Context(), []byte(h.config())))
	} else {
		h.write(h.config())
		h.reload("")
	}
	abw, abwc := h.lm()
	h.running().await("its new locators", func(s *api.Status) bool {
		sig := first(s).Signals
		return restoredOften(s) || len(sig) == 2 && int(sig[0].LM) == abw && int(sig[1].LM) == abwc
	})
	return fmt.Sprintf("to the locators %d and %d", abw, abwc)
}

func (h *chaosHop) badReload() string {
	good := h.config()
	bad := []struct{ old, with, mistake string }{
		{"speed: 50M", "speed: quick", "speed"},
		{"profile:", "profil:", "profil"},
		{"conservative", "hopeful", "hopeful"},
		{"tpid: 0x9900", "tpid: 0x8100", "0x8100"},
		{"local: true", "local: true\n    interval: 1ns", "interval"},
	}[h.random.IntN(5)]
	text := strings.Replace(good, bad.old, bad.with, 1)
	if h.waits {
		if err := h.running().client.Configure(h.c.t.Context(), []byte(text)); err == nil {
			h.c.t.Errorf("%s takes a configuration with %s", h.name, bad.with)
		}
		return bad.with
	}
	h.write(text)
	h.reload(bad.mistake)
	h.write(good)
	h.reload("")
	return bad.with
}

// fullDisk leaves no byte for the agent's state. One that waits for its configuration gets another,
// which it has nowhere to keep.
func (h *chaosHop) fullDisk() string {
	ballast := filepath.Join(h.disk, "ballast")
	f, err := os.Create(ballast)
	h.c.check(err)
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	f.Close()
	if !errors.Is(err, unix.ENOSPC) {
		h.c.t.Fatal(err)
	}
	detail := ""
	if h.waits {
		h.locators++
		if err := h.running().client.Configure(h.c.t.Context(), []byte(h.config())); err == nil {
			h.c.t.Errorf("%s takes a configuration that it cannot keep", h.name)
		}
		h.locators--
	} else {
		if h.index == 0 {
			detail = "with a kill, " + h.killAgent()
		}
		h.hold(time.Second, 2*time.Second)
	}
	h.c.check(os.Remove(ballast))
	return detail
}

func (h *chaosHop) freeze() string {
	h.c.check(os.WriteFile(h.frozen, nil, 0o600))
	d := h.hold(100*time.Millisecond, 8*time.Second)
	h.c.check(os.Remove(h.frozen))
	return fmt.Sprintf("for %v", d)
}

func (h *chaosHop) killSnmpd() string {
	h.snmpd.send(syscall.SIGKILL)
	h.snmpd.stop()
	d := h.hold(0, 4*time.Second)
	h.snmpd.start(h.c.t)
	return fmt.Sprintf("started again after %v", d)
}

func (h *chaosHop) stopSnmpd() string {
	h.snmpd.send(syscall.SIGSTOP)
	d := h.hold(100*time.Millisecond, 4*time.Second)
	h.snmpd.send(syscall.SIGCONT)
	return fmt.Sprintf("for %v", d)
}
