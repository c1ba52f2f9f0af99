package ovs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vlanrules"
)

// TestFormerOwner: of controllers that share a bridge, the next one takes it though the one before
// still has its connections, and what that one then sends is refused: flows by the switch, what
// goes to the database by its lock. One of another name keeps the bridge.
func TestFormerOwner(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	open := func(who string, role ofp.Role, token uint64) *Driver {
		d := s.opened(t, Config{Bridge: "csig", Who: who, Role: role, Guard: &ofp.Guard{May: func() error { return nil }, Generation: token}})
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	write := func(d *Driver, b uint8) error {
		_, err := d.Update(t.Context(), []vendors.PortUpdate{{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, b, 5)}}}, time.Minute)
		return err
	}
	first := open("csig-controller", ofp.RoleMaster, 5)
	apply(t, first, setupFor(quantize.Draft00, swp1))
	if err := write(first, 7); err != nil {
		t.Fatal(err)
	}
	if err := write(open("csig", ofp.RoleMaster, 6), 8); !errors.As(err, new(*vendors.HeldError)) || !vendors.Passes(err) {
		t.Errorf("another program: %v", err)
	}
	s.becomes(t, soon, []tag{best}, at7s)

	second := open("csig-controller", ofp.RoleMaster, 1<<44|2)
	if err := write(second, 9); err != nil {
		t.Fatal(err)
	}
	at9 := tag{tpidCSIG, 9<<7 | 5}
	s.becomes(t, soon, []tag{best}, at9)
	pipe := pipeline{base: first.cfg.Table}
	lease := pipe.lease(0)
	refused := (*ofp.Error)(nil)
	if err := first.of.Commit(t.Context(), []ofp.Mod{remove(&lease, "")}); !errors.As(err, &refused) || !refused.IsSlave() {
		t.Errorf("a change of the owner before: %v", err)
	}
	if err := first.db.change("csig", []any{external("Bridge", [][3]any{{"name", "==", "csig"}}, setupKey, "9")}); !errors.Is(err, errNotOwner) {
		t.Errorf("what it writes to the database: %v", err)
	}
	if err := write(first, 3); err == nil {
		t.Error("an update of the owner before is no error")
	}
	again := open("csig-controller", ofp.RoleMaster, 5)
	if err := again.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := again.of.Commit(t.Context(), []ofp.Mod{remove(&lease, "")}); err == nil || !strings.Contains(err.Error(), "a newer generation") {
		t.Errorf("its change by another connection: %v", err)
	}
	s.becomes(t, soon, []tag{best}, at9)
	if err := write(second, 10); err != nil {
		t.Errorf("the owner: %v", err)
	}
}

// TestFormerOwnerBeside: without role: master, too, the next of the controllers takes the bridge
// from one that still has its connections, which may not write to it from then on.
func TestFormerOwnerBeside(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	open := func(token uint64) *Driver {
		d := s.opened(t, Config{Bridge: "csig", Who: "csig-controller", Role: ofp.RoleEqual, Guard: &ofp.Guard{May: func() error { return nil }, Generation: token}})
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	first := open(5)
	apply(t, first, setupFor(quantize.Draft00, swp1))
	second := open(6)
	apply(t, second, setupFor(quantize.Draft00, swp1))
	if _, err := second.Update(t.Context(), []vendors.PortUpdate{{Port: "swp1", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 9, 5)}}}, time.Minute); err != nil {
		t.Fatal(err)
	}
	s.becomes(t, soon, []tag{best}, tag{tpidCSIG, 9<<7 | 5})
	if err := first.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.checkOwner(); err == nil || vendors.Passes(err) {
		t.Errorf("the owner before would take it back: %v", err)
	}
}
