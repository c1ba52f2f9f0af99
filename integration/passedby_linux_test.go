package integration

import (
	"errors"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
)

// Frames that go around the data plane have its agent make the port fall back, with the reason;
// when they end it is live again.
func TestPassedBy(t *testing.T) {
	t.Parallel()
	if !mayLoad(t, "--native") {
		return
	}
	b := newBed(t, quantize.Draft00)
	// Where a queue shapes, csig reads the queue's counters, which do not see such frames either.
	if err := b.s1.Do(func() error {
		return netlink.QdiscDel(&netlink.GenericQdisc{QdiscType: "tbf", QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: b.egress.Index(), Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}})
	}); err != nil {
		t.Fatal(err)
	}
	dev := &b.fleet.Devices[0]
	dev.Platform, dev.Interval, dev.Schedule = "linux-ebpf", 10*time.Millisecond, "@every 300ms"
	a := b.start(t)
	a.live()
	tags := b.tags(t)
	tags.await("with the port's own value", func(f *probe.Received) bool { return f.Tagged && f.Tag.LM == lmABW })
	around := b.around(t)
	s := a.await("that frames go around the data plane", func(s *api.Status) bool { return first(s).Code == findings.PassedBy })
	if p := first(s); p.State != api.StateStale {
		t.Errorf("the port is %s: %s", p.State, p.Reason)
	}
	stale := b.fleet.Profile.Layout.LMStale()
	tags.await("with the fallback", func(f *probe.Received) bool { return f.Tagged && f.Tag.LM == stale && f.Tag.S == 0 })
	if err := around(); err != nil {
		t.Fatal(err)
	}
	a.live()
	tags.await("with the port's own value again", func(f *probe.Received) bool { return f.Tagged && f.Tag.LM == lmABW })
}

// tags is a stream of probes from h1 to h2.
func (b *bed) tags(t *testing.T) *tags {
	t.Helper()
	r := &row{t: t, fleet: b.write(t)}
	return r.tags(b.h1, b.h2, 64)
}

// around sends frames out of the port that no BPF program at tcx sees, at some 20 Mbit/s,
// until what it returns is called.
func (b *bed) around(t *testing.T) (stop func() error) {
	t.Helper()
	fd := -1
	err := b.s1.Do(func() (err error) {
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1),
			unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: b.egress.Index()}))
	})
	if err != nil {
		t.Fatal(err)
	}
	f := make([]byte, fabric.LoadFrame)
	copy(f, b.h2.MAC)
	f[12], f[13] = 0x88, 0xb6
	quit, done := make(chan struct{}), make(chan error, 1)
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				done <- unix.Close(fd)
				return
			case <-tick.C:
			}
			for range 9 {
				if _, err := unix.Write(fd, f); err != nil && !errors.Is(err, unix.ENOBUFS) {
					done <- errors.Join(err, unix.Close(fd))
					return
				}
			}
		}
	}()
	return func() error { close(quit); return <-done }
}
