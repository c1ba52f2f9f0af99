package ovs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/ovs/ovstest"
	"github.com/csig-agent/csig/vlanrules"
)

// commitConn calls a function before it sends the commit of a bundle (OpenFlow 1.4 §7.3.9.2).
type commitConn struct {
	net.Conn
	at *func()
}

func (c commitConn) Write(b []byte) (int, error) {
	if f := *c.at; f != nil && len(b) == 16 && b[1] == 33 && b[13] == 4 {
		*c.at = nil
		f()
	}
	return c.Conn.Write(b)
}

// TestTooLate stops the updating process on the way for longer than the lease:
// the old value is not leased.
func TestTooLate(t *testing.T) {
	t.Parallel()
	none := []vlanrules.Intent{bucket(quantize.MinABW, 31, 5)} // has no flows of its own
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprintf("a full table is %v", full), func(t *testing.T) {
			s := &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}
			s.AddBridge("csig")
			s.AddWire("csig", "swp1", 1)
			s.AddWire("csig", "swp2", 2)
			var atCommit func() // is called once
			s.driver = s.openBy(t, Config{Bridge: "csig", Dial: func(ctx context.Context, path string) (net.Conn, error) {
				c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
				return commitConn{c, &atCommit}, err
			}})
			both := []vendors.PortUpdate{at7, {Port: "swp2", Intents: []vlanrules.Intent{bucket(quantize.MinABW, 6, 6)}}}
			apply(t, s.driver, setupFor(quantize.Draft00, swp1, vendors.PortSetup{Port: "swp2", Action: vlanrules.Update}))
			update(t, s.driver, time.Minute, vendors.PortUpdate{Port: "swp1", Intents: none}, vendors.PortUpdate{Port: "swp2", Intents: none})
			if full {
				flows := strings.Count(s.Ofctl("dump-flows", "csig", "table=62"), "priority")
				s.Vsctl("--", "--id=@t", "create", "Flow_Table", fmt.Sprintf("flow_limit=%d", flows+7), "--", "set", "bridge", "csig", "flow_tables:62=@t")
			}
			if err := s.driver.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			// It is stopped before the bundle is sent; where the table is full, when its
			// refusal is under way, and ports have their turn singly behind that.
			lease := time.Nanosecond
			for stopped := false; !stopped; {
				stopped = !full
				if full {
					lease += time.Second // on a slow machine the first second may be over before that
					end := time.Now().Add(lease)
					atCommit = func() {
						stopped = time.Now().Before(end)
						time.Sleep(time.Until(end))
					}
				}
				res, err := s.driver.Update(t.Context(), both, lease)
				if res.Leased || err == nil || !strings.Contains(err.Error(), "before it was sent: it is not renewed") {
					t.Errorf("%+v, %v", res, err)
				}
			}
			if flows := s.Ofctl("dump-flows", "csig", "table=61"); strings.Contains(flows, "hard_timeout") {
				t.Errorf("there is a lease:\n%s", flows)
			}
			if res, _ := s.driver.Update(t.Context(), both, time.Minute); !res.Leased {
				t.Errorf("the next one: %+v", res)
			}
		})
	}
}

// TestReleaseIsNotAForeignChange ends the lease, and goes on: that it was gone is no
// news.
func TestReleaseIsNotAForeignChange(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	apply(t, s.driver, setupFor(quantize.Draft00, swp1))
	update(t, s.driver, time.Minute, at7)
	if err := s.driver.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.driver.checked = time.Time{} // it is time to look
	if res := update(t, s.driver, time.Minute, at7); res.Repaired != nil {
		t.Errorf("repaired %q", res.Repaired)
	}
	s.becomes(t, soon, []tag{best}, at7s)
}

// TestIntentsThatTheSetupDoesNotHave asks for updates that the setup says nothing
// of: they are errors of their port, whose tags stay what the setup makes of them.
func TestIntentsThatTheSetupDoesNotHave(t *testing.T) {
	t.Parallel()
	s := newSandwich(t)
	for _, tc := range []struct {
		name, says string
		action     vlanrules.Action
		intent     vlanrules.Intent
		want       []tag
	}{
		{"a port that strips", "its setup is strip: apply a setup that updates it first", vlanrules.Strip, bucket(quantize.MinABW, 7, 5), nil},
		{"a port that passes on", "its setup is passthrough: apply", vlanrules.Passthrough, bucket(quantize.MinABW, 7, 5), []tag{best}},
		{"another signal", "pd is not a signal of the setup", vlanrules.Update, bucket(quantize.MaxPD, 7, 5), []tag{stale}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			setup := setupFor(quantize.Draft00, vendors.PortSetup{Port: "swp1", Action: tc.action})
			setup.Signals = []quantize.Signal{quantize.MinABW}
			apply(t, s.driver, setup)
			res, err := s.driver.Update(t.Context(), []vendors.PortUpdate{{Port: "swp1", Intents: []vlanrules.Intent{tc.intent}}}, time.Minute)
			var p *vendors.PermanentError
			if !res.Leased || !errors.As(err, &p) || p.Port != "swp1" || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%+v, %v", res, err)
			}
			s.becomes(t, soon, []tag{best}, tc.want...)
		})
	}
}

// TestClosedPortMakesRoom fills the table with what two ports share: the one for
// whose entries there is no room has none of its older ones left, either.
func TestClosedPortMakesRoom(t *testing.T) {
	t.Parallel()
	s := &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}
	s.AddBridge("csig")
	s.AddWire("csig", "swp1", 1)
	s.AddWire("csig", "swp2", 2)
	s.driver = s.open(t, "csig")
	apply(t, s.driver, setupFor(quantize.Draft00, swp1, vendors.PortSetup{Port: "swp2", Action: vlanrules.Update}))
	few := bucket(quantize.MinABW, 6, 6)
	update(t, s.driver, time.Minute, at7, vendors.PortUpdate{Port: "swp2", Intents: []vlanrules.Intent{few}})
	of := func(port string) int {
		return strings.Count(s.Ofctl("dump-flows", "csig", "table=62"), "reg15="+port+",")
	}
	had := of("0x1") + of("0x2")
	s.Vsctl("--", "--id=@t", "create", "Flow_Table", fmt.Sprintf("flow_limit=%d", had+1), "--", "set", "bridge", "csig", "flow_tables:62=@t")
	many := []vlanrules.Intent{few, bucket(quantize.MinABWC, 21, 6), bucket(quantize.MaxPD, 21, 6)}
	res, err := s.driver.Update(t.Context(), []vendors.PortUpdate{at7, {Port: "swp2", Intents: many}}, time.Minute)
	var p *vendors.PortError
	if !res.Leased || !errors.As(err, &p) || p.Port != "swp2" {
		t.Fatalf("%+v, %v", res, err)
	}
	if of("0x2") != 0 || of("0x1") == 0 {
		t.Errorf("the ports have %d and %d flows", of("0x1"), of("0x2"))
	}
}

// TestHandedOverByGoto has flows with instructions beside their actions.
func TestHandedOverByGoto(t *testing.T) {
	t.Parallel()
	s := &sandwich{Switch: ovstest.Start(t, ovstest.Options{Dummy: true})}
	s.AddBridge("csig")
	s.AddWire("csig", "swp1", 1)
	for flow, want := range map[string]string{
		"actions=load:1->NXM_NX_REG15[],goto_table:60": "",
		"actions=goto_table:59":                        "no flow of bridge csig hands frames to table 60 yet",
		"actions=write_actions(output:1)":              "1 flows of bridge csig may send frames out in ways that csig does not look into",
	} {
		s.Ofctl("del-flows", "csig")
		s.Ofctl("add-flow", "csig", flow)
		f, err := s.open(t, "csig").Probe(t.Context())
		if rest := strings.TrimPrefix(f.Update.Reason, losesR); err != nil || (rest == "") != (want == "") || !strings.Contains(rest, want) {
			t.Errorf("%s: %q, %v", flow, rest, err)
		}
	}
}

// TestOrderOfCongestion: the fewer steps a bucket is from the worst, the sooner a
// port is done, whether little or much of the signal is bad.
func TestOrderOfCongestion(t *testing.T) {
	t.Parallel()
	inOrder := [][]vlanrules.Intent{
		{bucket(quantize.MaxPD, quantize.NumBuckets-1, 1), bucket(quantize.MinABW, 9, 1)},
		{bucket(quantize.MinABW, 1, 1)},
		{bucket(quantize.MaxPD, quantize.NumBuckets-3, 1)},
		{bucket(quantize.MinABWC, 3, 1), bucket(quantize.MaxPD, 3, 1)},
		{bucket(quantize.MaxPD, 2, 1)},
		nil,
	}
	for i := range inOrder[1:] {
		if a, b := vendors.Worst(inOrder[i]), vendors.Worst(inOrder[i+1]); a >= b {
			t.Errorf("%v is at %d, and %v at %d", inOrder[i], a, inOrder[i+1], b)
		}
	}
}
