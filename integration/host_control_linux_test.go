package integration

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/hosts/tcp"
	"github.com/csig-agent/csig/integration/fabric"
	"github.com/csig-agent/csig/vendors/linux/packets"
)

// relay has frames that come to one port leave another a time later.
func (b *tcpBed) relay(from, to *fabric.Port, delay time.Duration) {
	b.t.Helper()
	var in, out *packets.Socket
	if err := from.Node().Do(func() (err error) {
		if in, err = packets.Open(from.Index(), nil); err == nil {
			out, err = packets.OpenSender(to.Index())
		}
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	type one struct {
		frame []byte
		due   time.Time
	}
	queue := make(chan one, 10_000)
	ended := make(chan struct{})
	go func() {
		defer close(queue)
		for {
			f, _, err := in.Receive()
			if err != nil {
				return
			}
			queue <- one{slices.Clone(f), time.Now().Add(delay)}
		}
	}()
	go func() {
		defer close(ended)
		for f := range queue {
			time.Sleep(time.Until(f.due)) // the cable is that long
			_ = out.Send(f.frame)         // at the end of a test the host is gone
		}
	}()
	b.t.Cleanup(func() {
		_ = in.Close()
		<-ended
		_ = out.Close()
	})
}

// dialUnder connects from a host, under a congestion control.
func (b *tcpBed) dialUnder(h *tcpHost, to, control string) net.Conn {
	b.t.Helper()
	var c net.Conn
	if err := h.node.Do(func() (err error) {
		d := net.Dialer{Timeout: patience, Control: func(_, _ string, c syscall.RawConn) (err error) {
			failed := c.Control(func(fd uintptr) { err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, control) })
			return errors.Join(err, failed)
		}}
		c, err = d.Dial("tcp", to)
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return c
}

// takeControl has csig's congestion control have the connections of both hosts.
func (b *tcpBed) takeControl() {
	b.text = strings.ReplaceAll(b.text, "tcp: {to: [10.0.0.0/24]}", "tcp: {to: [10.0.0.0/24], control: csig}")
}

// under waits until all connections of a host are under a control for a reason.
func (b *tcpBed) under(h *tcpHost, n int, control, why string) *tcp.Status {
	b.t.Helper()
	return b.await(h, "connections are under "+control, func(s *tcp.Status) bool {
		return len(s.Flows) == n && !slices.ContainsFunc(s.Flows, func(f tcp.Flow) bool { return f.Control != control || f.Why != why })
	})
}

// TestHostControl has a connection under csig's congestion control while the signal comes, and under the system's else.
func TestHostControl(t *testing.T) {
	t.Parallel()
	b := newTCPBed(t)
	b.giveRoom()
	b.takeControl()
	server := b.serve(b.h2, 5201)
	b.start(b.h1)
	b.start(b.h2)
	c := b.dialUnder(b.h1, "10.0.0.2:5201", "cubic")
	send(c)
	// Without a switch that writes tags there is no signal: absence is no head-room.
	b.under(b.h1, 1, "cubic", "no signal has come")
	b.startSwitches()
	s := b.under(b.h1, 1, "csig", "the signal comes")
	if s.Control.Wanted != "csig" || s.Control.Counts.Given == 0 || s.Control.Trouble != "" {
		t.Errorf("%+v", s.Control)
	}
	if out := exits(t, 0, b.h1.node.Command(csig, "host", "status", "--socket", b.socket(b.h1))); !strings.Contains(out, "1 connection under csig: the signal comes") {
		t.Errorf("%s", out)
	}
	// The peer's csig is killed: nothing reflects.
	b.h2.kill()
	b.under(b.h1, 1, "cubic", "signals have stopped")
	before := server.got.Load()
	if !within(patience, func() bool { return server.got.Load() > before+1_000_000 }) {
		t.Error("the connection does not go on")
	}
}
