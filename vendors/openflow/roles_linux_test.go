package openflow

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/protocol/ofp"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/openflow/oftest"
	"github.com/csig-agent/csig/vlanrules"
)

// TestRoles has another controller at the switch: csig takes no role from it as EQUAL,
// and does as MASTER.
func TestRoles(t *testing.T) {
	t.Parallel()
	l := labOf(t, oftest.StartSwitch(t, 2), 2, oftest.Faults{})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	rival, err := ofp.NewConn(ctx, c, ofp.Version13)
	if err != nil {
		t.Fatal(err)
	}
	defer rival.Close()
	writes := func() error {
		f := ofp.Flow{Priority: 7, Cookie: 0xbeef}
		_, err := rival.Apply(ctx, []ofp.Mod{{Kind: ofp.Add, Flow: &f}})
		return err
	}
	if err := rival.SetRole(ctx, ofp.RoleMaster); err != nil {
		t.Fatal(err)
	}
	for _, role := range []ofp.Role{ofp.RoleEqual, ofp.RoleMaster} {
		session, err := ofp.Open(ofp.Config{Connect: l.proxy.Addr(), Plain: true, Role: role})
		if err != nil {
			t.Fatal(err)
		}
		d, err := Open(Config{OrdinaryVLANs: NotHandedOver, Connect: session.Conn, Done: session.Close})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Probe(ctx); err != nil {
			t.Errorf("%s: %v", role, err)
		}
		if err := writes(); err != nil {
			t.Errorf("csig is to be %s, and only reads: the controller that is master writes: %v", role, err)
		}
		if err := d.Apply(ctx, setupFor(ports(vlanrules.Update, "p2")...)); err != nil {
			t.Fatalf("%s: %v", role, err)
		}
		if res, err := d.Update(ctx, []vendors.PortUpdate{seven("p2")}, time.Minute); err != nil || !res.Leased {
			t.Errorf("%s: %+v, %v", role, res, err)
		}
		l.is(t, role.String(), 2, 7<<7|5)
		var refused *ofp.Error
		if err := writes(); (err != nil) != (role == ofp.RoleMaster) || err != nil && !(errors.As(err, &refused) && refused.IsSlave()) {
			t.Errorf("csig is %s, and the controller that was master writes: %v", role, err)
		}
		if role == ofp.RoleMaster {
			demoted(t, l, d, rival)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// demoted has a rival become master: csig, which was it, says so, programs nothing and
// falls back, and is master again on its next connection, with a later generation.
func demoted(t *testing.T, l *lab, d *Driver, rival *ofp.Conn) {
	up := []vendors.PortUpdate{nine("p2")}
	if res, err := d.Update(t.Context(), up, time.Second); err != nil || !res.Leased {
		t.Fatalf("%+v, %v", res, err)
	}
	if err := rival.SetRole(t.Context(), ofp.RoleMaster); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		res, err := d.Update(t.Context(), []vendors.PortUpdate{seven("p2")}, time.Second)
		var refused *ofp.Error
		if res.Leased || !errors.As(err, &refused) || !refused.IsSlave() || !strings.Contains(err.Error(), "another controller has become master") {
			t.Errorf("csig was master: %+v, %v", res, err)
		}
	}
	for limit := time.Now().Add(soon); l.leaves(t, 2, best) != stale; l.Settled() {
		if time.Now().After(limit) {
			t.Fatalf("csig is a slave, and its values stay\n%s", l.flows())
		}
	}
	l.proxy.Cut()
	for limit := time.Now().Add(soon); ; {
		res, err := d.Update(t.Context(), []vendors.PortUpdate{seven("p2")}, time.Minute)
		if err == nil && res.Leased {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	l.is(t, "csig is connected again, and master", 2, 7<<7|5)
}
