package qualifytest

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/packets"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest/memory"
	"github.com/csig-agent/csig/vlanrules"
)

func TestMain(m *testing.M) { fabric.Tests(m, nil) }

// TestRealCards: the switch in memory forwards between real cards, by its rules, and notices
// that the link of one was lost.
func TestRealCards(t *testing.T) {
	const tpid = 0x9900
	lab := NewLab(t, memory.Config{TPID: tpid, Faults: memory.Faults{ForgetsOnLinkDown: true}}, 2)
	socks := make([]*packets.Socket, 2)
	for i, c := range lab.Cards {
		if err := lab.Bench.Do(func() (err error) {
			socks[i], err = packets.Open(c.Index(), nil)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer socks[i].Close()
	}
	d := lab.Driver()
	if err := d.Apply(t.Context(), memory.Setup(tpid, "p1", "p2")); err != nil {
		t.Fatal(err)
	}
	intents := []vlanrules.Intent{{Signal: quantize.MinABW, Action: vlanrules.Update, S: 9, LM: 44}}
	if _, err := d.Update(t.Context(), []vendors.PortUpdate{{Port: "p2", Intents: intents}}, time.Hour); err != nil {
		t.Fatal(err)
	}
	sent := append([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, tpid >> 8, tpid & 0xff, 0x1f, 0x85, 0x88, 0xb5}, make([]byte, 50)...)
	wants := func(what string, tci ...byte) {
		t.Helper()
		if err := socks[0].Send(sent); err != nil {
			t.Fatal(err)
		}
		want := slices.Clone(sent)
		copy(want[14:], tci)
		for until := time.Now().Add(time.Minute); time.Now().Before(until); {
			got, _, err := socks[1].Receive()
			if err != nil && !errors.Is(err, unix.ENETDOWN) { // of the link that was lost
				t.Fatal(err)
			}
			if got != nil && bytes.Equal(got[:12], sent[:12]) {
				if !bytes.Equal(got, want) {
					t.Errorf("%s: %x, want %x", what, got, want)
				}
				return
			}
		}
		t.Fatalf("%s: nothing arrives", what)
	}
	wants("a rule", 0x14, 0xac)
	if err := lab.Bench.Do(func() error {
		l, err := netlink.LinkByIndex(lab.Cards[1].Index())
		if err == nil {
			err = errors.Join(netlink.LinkSetDown(l), netlink.LinkSetUp(l))
		}
		for err == nil && l.Attrs().OperState != netlink.OperUp {
			l, err = netlink.LinkByIndex(l.Attrs().Index)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	wants("after the link was lost", 0x1f, 0x85)
}
