package ovs

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/vendorstest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestUpgradeUnderTraffic has an agent take over a bridge with the flows of csig before
// tags shared cached flows (testdata: ovs-ofctl --no-stats --no-names dump-flows), while
// frames pass: none is lost, doubled or wrong, also not one that the former flows had
// parsed again already.
func TestUpgradeUnderTraffic(t *testing.T) {
	t.Parallel()
	s := newHanded(t)
	s.Ofctl("add-group", "csig", "group_id=1668508007,type=indirect,bucket=resubmit(,65)")
	former, err := filepath.Abs("testdata/flows-before-classes.txt")
	if err != nil {
		t.Fatal(err)
	}
	intents := []vlanrules.Intent{bucket(quantize.MinABW, 7, 5)}
	tags := withSignal(distinct(600 / vendorstest.Every(t, 3)))
	frames, during := 0, 0
	pass := func() {
		for _, shape := range shapes {
			for i, got := range s.exchange(t, tags, shape.before) {
				frames++
				want := frame(uint32(i), shape.after(tags[i], model(quantize.Draft00, intents, tags[i]))...)
				if !bytes.Equal(got, want) {
					t.Fatalf("%s: a frame leaves as\n%x, want\n%x\n%s", shape.name, got, want, s.Ofctl("dump-flows", "csig"))
				}
			}
		}
	}
	for range 4 / vendorstest.Every(t, 2) {
		s.Ofctl("--bundle", "replace-flows", "csig", former)
		s.Ofctl("add-flow", "csig", "in_port=1,actions=load:2->NXM_NX_REG15[],resubmit(,60)")
		s.settle()
		pass()
		d, done := s.openAt(t, 60), make(chan error, 1)
		go func() {
			err := d.Apply(t.Context(), setupFor(quantize.Draft00, swp1))
			if err == nil {
				_, err = d.Update(t.Context(), []vendors.PortUpdate{{Port: "swp1", Intents: intents}}, time.Minute)
			}
			done <- err
		}()
		for changed := false; !changed; {
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				changed = true // and once more
			default:
			}
			from := frames
			pass()
			during += frames - from
		}
		if flows, err := d.of.Flows(t.Context(), ofp.Filter{Table: 65}); err != nil || len(flows) < 20 {
			t.Fatalf("the flows are the former ones: %d in table 65, %v", len(flows), err)
		}
	}
	s.settle()
	if got := s.out.Receive(100 * time.Millisecond); got != nil {
		t.Errorf("a frame leaves twice: %x", got)
	}
	t.Logf("%d frames, %d of them while the flows were changed", frames, during)
}

// TestLongUpgradeUnderTraffic is TestUpgradeUnderTraffic with more tags, and more often.
func TestLongUpgradeUnderTraffic(t *testing.T) { TestUpgradeUnderTraffic(t) }
