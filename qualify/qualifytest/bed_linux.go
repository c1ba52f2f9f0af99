package qualifytest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/qualify"
)

// bedMTU is that of the switch's ports. The cards send what is too long for those, too.
const (
	bedMTU  = 1600
	cardMTU = bedMTU + 100
)

// Bed is a host whose cards eth1, eth2, … are cabled to the ports swp1, swp2, … of a
// switch: a bridge of the kernel in another namespace, that learns and floods.
type Bed struct {
	Fabric       fabric.Fabric
	Host, Switch *fabric.Node
}

// NewBed builds a host and a switch with so many cables, which end with the test.
func NewBed(t testing.TB, cables int) *Bed {
	t.Helper()
	b := &Bed{}
	t.Cleanup(func() {
		if err := b.Fabric.Close(); err != nil {
			t.Error(err)
		}
	})
	var err error
	if b.Host, err = b.Fabric.AddHost("bench"); err != nil {
		t.Fatal(err)
	}
	if b.Switch, err = b.Fabric.AddSwitch("sw1"); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= cables; i++ {
		port := fmt.Sprintf("swp%d", i)
		if _, _, err := b.Fabric.Connect(fabric.End{Node: b.Host, Port: fmt.Sprintf("eth%d", i)}, fabric.End{Node: b.Switch, Port: port}, bedMTU); err != nil {
			t.Fatal(err)
		}
		err := b.Host.Do(func() error {
			l, err := netlink.LinkByName(fmt.Sprintf("eth%d", i))
			if err != nil {
				return err
			}
			return netlink.LinkSetMTU(l, cardMTU)
		})
		if err != nil {
			t.Fatal(err)
		}
		err = b.Switch.Do(func() error {
			l, err := netlink.LinkByName(port)
			if err != nil {
				return err
			}
			return errors.Join(netlink.LinkSetLearning(l, true), netlink.LinkSetFlood(l, true))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Fabric.WaitUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// Cards opens the host's cards.
func (b *Bed) Cards(t testing.TB) []*qualify.Port {
	t.Helper()
	var ports []string
	for i := range b.Host.Ports() {
		ports = append(ports, fmt.Sprintf("swp%d", i+1))
	}
	return Cards(t, b.Host, "eth", ports...)
}

// Cards opens the cards of a host that are cabled to these ports: card1 and so on.
func Cards(t testing.TB, host *fabric.Node, card string, ports ...string) (out []*qualify.Port) {
	t.Helper()
	err := host.Do(func() error {
		for i, name := range ports {
			p, err := qualify.OpenCard(name, fmt.Sprint(card, i+1))
			if err != nil {
				return err
			}
			out = append(out, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
