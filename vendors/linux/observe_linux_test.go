package linux

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestLook: what the driver sees is what is there, whatever it did itself.
func TestLook(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	d, other := openDriver(t, w.netns), openDriver(t, w.netns)
	look := func(what string, signal vendors.DataPlaneSignal, nothing bool) vendors.DataPlane {
		t.Helper()
		s, err := d.Look(t.Context())
		if err != nil || s.Signal != signal || s.Setup.Nothing() != nothing || (s.Left > 0) != (signal == vendors.SignalWritten) {
			t.Fatalf("%s: %+v, %v", what, s, err)
		}
		return s
	}
	look("an empty device", vendors.SignalFallback, true)
	apply(t, d, setupFor(updatePort))
	look("no lease yet", vendors.SignalFallback, false)
	update(t, d, time.Minute, one(9, 4))
	if s := look("a lease", vendors.SignalWritten, false); s.Left > time.Minute+time.Second || s.Left < 10*time.Second {
		t.Errorf("%v are left of a minute", s.Left)
	}
	w.run("nft", "flush", "set", "netdev", tableName, setLease)
	look("the lease was flushed", vendors.SignalFallback, false)
	update(t, d, time.Minute, one(9, 4))
	w.run("nft", "flush", "chain", "netdev", tableName, portKey("swp1"))
	if s := look("a chain was flushed", vendors.SignalWritten, false); s.Setup.Ports[0].Damaged == "" {
		t.Errorf("%+v", s.Setup)
	}
	if err := other.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	look("csig off by another process", vendors.SignalFallback, true)
	if got := w.value(initial); got != initial {
		t.Errorf("0x%04x leaves", got)
	}
	w.run("nft", "add", "table", "netdev", tableName)
	if _, err := d.Look(t.Context()); !errors.As(err, new(*vendors.ForeignError)) {
		t.Errorf("another process's table: %v", err)
	}
	w.run("nft", "delete", "table", "netdev", tableName)
	// A look is no reason to miss what changes.
	if res := update(t, d, time.Minute, one(9, 4)); res.Repaired == nil {
		t.Errorf("%+v", res)
	}
	if got := w.value(initial); got != 9<<7|4 {
		t.Errorf("0x%04x leaves", got)
	}
}

// TestLookWhileWritten: a process can look while another one writes values more often than the
// table can be read, and sees no damage.
func TestLookWhileWritten(t *testing.T) {
	t.Parallel()
	n, s := newPorts(t, 64)
	writer, d := openDriver(t, n), openDriver(t, n)
	apply(t, writer, s)
	update(t, writer, time.Minute, walk(nil, s, 0)...)
	stop, ended := make(chan struct{}), make(chan error)
	go func() {
		for cycle := 1; ; cycle++ {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			if _, err := writer.Update(context.WithoutCancel(t.Context()), walk(nil, s, cycle), time.Minute); err != nil {
				ended <- err
				return
			}
		}
	}()
	disturbed := 0
	for range 20 {
		from, err := d.sock.generation()
		if err != nil {
			t.Fatal(err)
		}
		seen, err := d.Look(t.Context())
		if err != nil || seen.Signal != vendors.SignalWritten {
			t.Fatalf("%v, %v", seen.Signal, err)
		}
		if changes, err := d.Diff(seen.Setup, s); err != nil || len(changes) != 0 {
			t.Fatalf("%v, %v", changes, err)
		}
		if to, err := d.sock.generation(); err == nil && to-from > 1 {
			disturbed++
		}
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if disturbed < 10 {
		t.Errorf("%d of 20 looks were disturbed: this shows nothing", disturbed)
	}
	// What another process made in between is seen.
	n.run("nft", "flush", "chain", "netdev", tableName, portKey("swp2"))
	if seen, err := d.Look(t.Context()); err != nil || seen.Setup.Ports[2].Damaged == "" {
		t.Errorf("%+v, %v", seen.Setup.Ports[2], err)
	}
}

// TestKnowsWhatItWrote: what the driver takes for its table without reading it is what a read has.
func TestKnowsWhatItWrote(t *testing.T) {
	t.Parallel()
	n, s := newPorts(t, 3)
	d := openDriver(t, n)
	strip := vendors.PortSetup{Port: "far0", Action: vlanrules.Passthrough}
	wide, uec, without, never := s, s, s, s
	wide.TPID, wide.WideTPID, wide.Ports = 0x88a8, 0x9901, append(slices.Clone(s.Ports), strip)
	uec.Layout, uec.OnStale = quantize.UEC, inventory.StalePassthrough
	without.Ports = s.Ports[1:]
	never.Ports = append(slices.Clone(s.Ports), vendors.PortSetup{Port: "swp9", Action: vlanrules.Update})
	updates := walk(nil, s, 0)
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"a new table", func() { apply(t, d, s) }},
		{"another TPID", func() { apply(t, d, wide) }},
		{"another layout", func() { apply(t, d, uec) }},
		{"a port less", func() { apply(t, d, without) }},
		{"a port more", func() { apply(t, d, s) }},
		{"a port without a device", func() { _ = d.Apply(t.Context(), never) }}, // the error is of the port
		{"a device less", func() { n.ip("link del swp1") }},
		{"another TPID without it", func() { _ = d.Apply(t.Context(), wide) }},
		{"a device made again", func() { n.ip("link add swp1 type veth peer name far1") }},
		{"rules flushed by another process", func() { n.run("nft", "flush", "chain", "netdev", tableName, portKey("swp2")) }},
	} {
		step.do()
		_, _ = d.Update(t.Context(), updates, time.Minute) // the error is of a port that is missing
		known := d.written()
		read, err := d.sock.observe(false)
		if known == nil || err != nil || !known.keep(read.chains) {
			t.Fatalf("%s: nothing is known (%v), %v", step.what, known == nil, err)
		}
		for _, c := range known.chains {
			for _, rule := range c.made {
				c.rules = append(c.rules, formOf(rule.steps))
			}
			c.made = nil
		}
		for _, c := range read.chains {
			c.handle = 0
		}
		for _, set := range read.sets {
			set.handle = 0
		}
		known.generation, known.alike, known.sets[setLease].left = read.generation, read.alike, read.sets[setLease].left
		if !reflect.DeepEqual(known, read) {
			t.Errorf("%s: taken for\n%s\nread\n%s", step.what, dump(known), dump(read))
		}
	}
}

func dump(o *observed) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(o.sets)) {
		fmt.Fprintf(&text, "%+v\n", *o.sets[name])
	}
	for _, name := range slices.Sorted(maps.Keys(o.chains)) {
		fmt.Fprintf(&text, "%+v\n", *o.chains[name])
	}
	return text.String()
}
