package qualifytest

import (
	"fmt"
	"testing"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/vendors/vendorstest/memory"
)

// Lab is a switch whose ports p1, p2 … are cabled to cards c1, c2 … of a host.
type Lab struct {
	*memory.Switch
	Bench *fabric.Node
	Cards []*fabric.Port // of Bench
}

// NewLab makes a switch with so many ports in namespaces of its own.
func NewLab(t testing.TB, cfg memory.Config, ports int) *Lab {
	t.Helper()
	var f fabric.Fabric
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	bench, err := f.AddHost("bench")
	if err != nil {
		t.Fatal(err)
	}
	node, err := f.AddHost("switch")
	if err != nil {
		t.Fatal(err)
	}
	lab := &Lab{Bench: bench}
	for i := range ports {
		card, _, err := f.Connect(fabric.End{Node: bench, Port: fmt.Sprint("c", i+1)}, fabric.End{Node: node, Port: fmt.Sprint("p", i+1)}, 0)
		if err != nil {
			t.Fatal(err)
		}
		lab.Cards = append(lab.Cards, card)
	}
	if err := f.WaitUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	lab.Switch = memory.New(cfg)
	attach(t, lab.Switch, node)
	return lab
}
