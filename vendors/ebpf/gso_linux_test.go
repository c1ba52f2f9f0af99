package ebpf

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/quantize"
)

// run runs a command in a node.
func run(t testing.TB, n *fabric.Node, name string, args ...string) []byte {
	t.Helper()
	out, err := n.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return out
}

// offload gives both hosts an address, and lets frames reach the port that are segmented later.
func (w *wire) offload(t testing.TB) {
	t.Helper()
	for _, e := range []struct {
		node       *fabric.Node
		port, peer *fabric.Port
		ip, far    string
	}{{w.h1, w.e1, w.e2, "10.0.0.1", "10.0.0.2"}, {w.h2, w.e2, w.e1, "10.0.0.2", "10.0.0.1"}} {
		run(t, e.node, "ip", "addr", "add", e.ip+"/24", "dev", e.port.Name)
		run(t, e.node, "ip", "neigh", "add", e.far, "lladdr", e.peer.MAC.String(), "dev", e.port.Name)
		run(t, e.node, "ethtool", "-K", e.port.Name, "gso", "on", "tso", "on", "tx", "on", "sg", "on")
	}
	run(t, w.s, "ethtool", "-K", w.p2.Name, "gso", "on", "tso", "on", "tx", "on", "sg", "on")
}

// A TCP stream whose frames are segmented after the data plane has seen them: it counts
// what the queueing discipline counts, which is what a network card would send.
func TestSegments(t *testing.T) {
	t.Parallel()
	o := loaded(t)
	w := newWire(t, o)
	b := newBench(t, o, quantize.Draft00, 0x9900, time.Hour)
	b.index, b.port.Overhead = w.index, fabric.L1Overhead
	b.sent(0)
	if err := o.CsigState.Put(uint32(0), &planeState{}); err != nil {
		t.Fatal(err)
	}
	w.offload(t)
	run(t, w.s, "tc", "qdisc", "replace", "dev", w.p2.Name, "root", "pfifo", "limit", "10000")
	var l net.Listener
	if err := w.h2.Do(func() (err error) { l, err = net.Listen("tcp", "10.0.0.2:0"); return err }); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = io.Copy(io.Discard, c)
			err = errors.Join(err, c.Close())
		}
		done <- err
	}()
	err := w.h1.Do(func() error {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		_, err = c.Write(make([]byte, 20<<20))
		return errors.Join(err, c.Close())
	})
	if err := errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	// The last acknowledgements may still be on their way: both have to come to rest.
	var counted, frames uint64
	var qdisc []struct {
		Bytes, Packets uint64
	}
	for deadline := time.Now().Add(time.Minute); ; {
		var s planeState
		var st []planeStats
		if err := errors.Join(o.CsigState.Lookup(uint32(0), &s), o.CsigStats.Lookup(uint32(0), &st), json.Unmarshal(run(t, w.s, "tc", "-s", "-j", "qdisc", "show", "dev", w.p2.Name), &qdisc)); err != nil {
			t.Fatal(err)
		}
		counted, frames = s.Bytes, 0
		for _, c := range st {
			frames += c.Frames
		}
		if want := qdisc[0].Bytes + fabric.L1Overhead*qdisc[0].Packets; counted == want {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("counted %d, the queueing discipline %d (%+v)", counted, want, qdisc[0])
		}
	}
	if frames*2 > qdisc[0].Packets {
		t.Errorf("%d frames for %d packets: hardly any was segmented", frames, qdisc[0].Packets)
	}
	t.Logf("%d bytes in %d frames, %d packets", counted, frames, qdisc[0].Packets)
}
