package memory_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/packets"
	"github.com/csig-agent/csig/qualify/qualifytest"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/linux"
	"github.com/csig-agent/csig/vendors/vendorstest/memory"
	"github.com/csig-agent/csig/vlanrules"
)

func TestMain(m *testing.M) { fabric.Tests(m, nil) }

// TestLikeTheKernel: what leaves the switch in memory is what leaves a bridge of the kernel with
// csig's rules of nftables, for all 65,536 tags.
func TestLikeTheKernel(t *testing.T) {
	const tpid = 0x9900
	bed := qualifytest.NewBed(t, 2)
	kernel, err := linux.Open(linux.Config{NetNS: bed.Switch.FD()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kernel.Close() })
	var in, out *packets.Socket
	if err := bed.Host.Do(func() (err error) {
		if in, err = packets.Open(bed.Host.Ports()[0].Index(), nil); err == nil {
			t.Cleanup(func() { in.Close() })
			out, err = packets.Open(bed.Host.Ports()[1].Index(), nil)
		}
		if err == nil {
			t.Cleanup(func() { out.Close() })
			err = out.Promiscuous(bed.Host.Ports()[1].Index())
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s := memory.New(memory.Config{})
	a, b := s.Cable("swp1"), s.Cable("swp2")
	intents := []vlanrules.Intent{
		{Signal: quantize.MinABW, Action: vlanrules.Update, S: 9, LM: 44},
		{Signal: quantize.MinABWC, Action: vlanrules.Update, S: 22, LM: 107},
	}
	for _, d := range []vendors.Driver{kernel, s.Driver()} {
		if err := d.Apply(t.Context(), memory.Setup(tpid, "swp1", "swp2")); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Update(t.Context(), []vendors.PortUpdate{{Port: "swp2", Intents: intents}}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	const burst = 64 // of which no queue loses any
	rewritten := 0
	for first := 0; first < 1<<16; first += burst {
		want := map[string]bool{}
		for tci := first; tci < first+burst; tci++ {
			f := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, tpid >> 8, tpid & 0xff, byte(tci >> 8), byte(tci), 0x88, 0xb5}
			f = append(binary.BigEndian.AppendUint16(f, uint16(tci)), make([]byte, 40)...)
			if err := a.Send(f); err != nil {
				t.Fatal(err)
			}
			got := b.Next()
			if got == nil {
				t.Fatalf("TCI %#04x is lost in memory", tci)
			}
			if !bytes.Equal(got, f) {
				rewritten++
			}
			want[string(got)] = true
			if err := in.Send(f); err != nil {
				t.Fatal(err)
			}
		}
		for until := time.Now().Add(time.Minute); len(want) > 0; {
			f, _, err := out.Receive()
			switch {
			case err != nil:
				t.Fatal(err)
			case f == nil && time.Now().After(until):
				t.Fatalf("%d frames from TCI %#04x on do not leave the kernel as they leave memory", len(want), first)
			case f == nil || !slices.Equal(f[:12], []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}): // e.g. of IPv6
			case !want[string(f)]:
				t.Fatalf("%x leaves the kernel, and not memory", f)
			default:
				delete(want, string(f))
			}
		}
	}
	if rewritten == 0 {
		t.Error("no tag was rewritten")
	}
}
