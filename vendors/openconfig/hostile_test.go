package openconfig

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/csig-agent/csig/protocol/gnmi"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/gnmiset"
	"github.com/csig-agent/csig/vendors/openconfig/octest"
	"github.com/csig-agent/csig/vlanrules"
)

// answer makes every answer to Get one with this JSON at a path.
func answer(js string, elem ...*pb.PathElem) func(*pb.GetResponse) {
	return func(r *pb.GetResponse) {
		r.Notification = []*pb.Notification{{Update: []*pb.Update{{Path: &pb.Path{Elem: elem}, Val: &pb.TypedValue{Value: &pb.TypedValue_JsonIetfVal{JsonIetfVal: []byte(js)}}}}}}
	}
}

// TestHostile: whatever a target answers, csig ends with an error that can be printed, and has
// changed nothing.
func TestHostile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		port := []*pb.PathElem{{Name: "interfaces"}, {Name: "interface", Key: map[string]string{"name": "Ethernet1"}}}
		config := append(port[:2:2], &pb.PathElem{Name: "config"})
		record := func(name, text string) string {
			return fmt.Sprintf(`{"acl":{"acl-sets":{"acl-set":[{"name":%q,"type":"ACL_IPV4","config":{"name":%[1]q,"description":%q}}]}}}`, name, text)
		}
		for name, tc := range map[string]struct {
			lie  func(*pb.GetResponse)
			want string
		}{
			"no JSON":                      {answer(`{"mtu":`, config...), "unexpected EOF"},
			"two values":                   {answer(`{"mtu":1}{}`, config...), "more than one value"},
			"a wrong type":                 {answer(`{"mtu":{"a":1}}`, config...), "wrong type"},
			"a list":                       {answer(`[{"mtu":1}]`, config...), "want an object"},
			"a number":                     {answer(`{"mtu":-1}`, config...), "wrong type"},
			"a huge MTU":                   {answer(`{"mtu":70000}`, config...), "want a number of 16 bits"},
			"escapes":                      {answer(`{"tpid":"\u001b[31m"}`, config...), "cannot be printed"},
			"a long TPID":                  {answer(`{"tpid":"`+strings.Repeat("T", 4000)+`"}`, config...), "of more than"},
			"no key":                       {answer(`{"interfaces":{"interface":[{"config":{"mtu":1}}]}}`), "without its key name"},
			"a key of number":              {answer(`{"interfaces":{"interface":[{"name":7,"config":{"mtu":1}}]}}`), "wrong type"},
			"an odd name":                  {answer(`{"interfaces":{"interface":[{"name":"a\u202eb","config":{"mtu":1}}]}}`), "cannot be printed"},
			"deep":                         {answer(`{"interfaces":` + strings.Repeat(`{"interface":`, 10_001) + `1` + strings.Repeat(`}`, 10_002)), "JSON"},
			"huge":                         {answer(`{"mtu":1,"x":"`+strings.Repeat("x", 5<<20)+`"}`, config...), "too large"},
			"many":                         {answer(`{"interfaces":{"interface":[` + strings.Repeat(`{"name":"a","config":{"mtu":1}},`, 2_000) + `{"name":"a","config":{"mtu":1}}]}}`), ""},
			"a part's number":              {answer(record("csig-record-x", "{}")), "is no part of it"},
			"a high number":                {answer(record("csig-record-100000", "{}")), "is no part of it"},
			"a path without a key":         {answer(`1500`, &pb.PathElem{Name: "interfaces"}, &pb.PathElem{Name: "interface"}, &pb.PathElem{Name: "config"}, &pb.PathElem{Name: "mtu"}), "without its key name"},
			"a record's path without keys": {answer(`"x"`, &pb.PathElem{Name: "acl"}, &pb.PathElem{Name: "acl-sets"}, &pb.PathElem{Name: "acl-set"}, &pb.PathElem{Name: "config"}, &pb.PathElem{Name: "description"}), "without its key name"},
			"old paths": {func(r *pb.GetResponse) {
				r.Notification = []*pb.Notification{{Update: []*pb.Update{{Path: &pb.Path{Element: []string{"interfaces"}}}}}} //nolint:staticcheck // that is the point
			}, "paths as strings"},
			"nothing": {func(r *pb.GetResponse) { r.Notification = nil }, "no such port"},
		} {
			target, _, before := newTarget(t, func(target *octest.Target) { target.Lie = tc.lie })
			d := open(t, gnmiset.Config{Connect: connect(target)})
			err := d.Apply(t.Context(), setup(0x88a8, ports...))
			if err == nil || !strings.Contains(err.Error(), tc.want) || untrusted.Text(err.Error(), 4000) != err.Error() {
				t.Errorf("%s: %v, want %s", name, err, tc.want)
			}
			if sets, _ := target.Sets(); sets != 0 || target.Config() != before {
				t.Errorf("%s: %d Sets", name, sets)
			}
		}
	})
}

// TestBrokenRecord: a record with a part missing, or not as csig wrote it, is damage, which a
// new setup repairs.
func TestBrokenRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, lie := range map[string]string{
			"a part is missing": `{"acl":{"acl-sets":{"acl-set":[{"name":"csig-record-1","type":"ACL_IPV4","config":{"name":"csig-record-1","description":"x"}}]}}}`,
			"not csig's":        `{"acl":{"acl-sets":{"acl-set":[{"name":"csig-record-0","type":"ACL_IPV4","config":{"name":"csig-record-0","description":"hello"}}]}}}`,
		} {
			target, _, _ := newTarget(t, func(target *octest.Target) { target.Lie = answer(lie) })
			d := open(t, gnmiset.Config{Connect: connect(target)})
			if have, err := d.Observe(t.Context()); err != nil || !strings.Contains(have.Damaged, "cannot be read") {
				t.Errorf("%s: %+v, %v", name, have, err)
			}
		}
	})
}

// TestSlow: a target that does not answer in time is an error.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target, f, _ := newTarget(t, nil)
		hang := make(chan struct{})
		t.Cleanup(func() { close(hang) }) // before the server stops
		f.mu.Lock()
		target.Fault = func(string) error { <-hang; return nil }
		f.mu.Unlock()
		d := open(t, gnmiset.Config{Connect: func(context.Context) (*gnmi.Target, error) {
			return gnmi.Connect(gnmi.Config{Device: "leaf1", Address: target.Address, Dial: target.Dial, Plaintext: true, Timeout: 50 * time.Millisecond})
		}})
		if _, err := d.Observe(t.Context()); !errors.Is(err, gnmi.ErrNoAnswer) {
			t.Error(err)
		}
	})
}

// TestRefused: what the models or the target do not take is refused, and nothing is changed.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tc := range map[string]struct {
			target func(*octest.Target)
			do     func(context.Context, *gnmiset.Driver) error
			want   string
		}{
			"TPID": {nil, func(ctx context.Context, d *gnmiset.Driver) error { return d.Apply(ctx, setup(0x9900, ports...)) }, "0x8100, 0x88a8, 0x9100 and 0x9200 alone"},
			"port": {nil, func(ctx context.Context, d *gnmiset.Driver) error { return d.Apply(ctx, setup(0x88a8, "Ethernet9")) }, "port Ethernet9: the switch has no such port"},
			"update": {nil, func(ctx context.Context, d *gnmiset.Driver) error {
				s := setup(0x88a8, ports...)
				s.Ports[0].Action = vlanrules.Update
				return d.Apply(ctx, s)
			}, "nothing matches the PCP"},
			"MTU":            {nil, func(ctx context.Context, d *gnmiset.Driver) error { return d.SetMTU(ctx, "Ethernet1", 9999) }, "MTU 10013 is not in 68..9216"},
			"MTU of 17 bits": {nil, func(ctx context.Context, d *gnmiset.Driver) error { return d.SetMTU(ctx, "Ethernet1", 70000) }, "an MTU of 70000"},
			"models":         {func(t *octest.Target) { t.Models = []string{"openconfig-interfaces", "openconfig-vlan"} }, func(ctx context.Context, d *gnmiset.Driver) error { return d.Apply(ctx, setup(0x88a8, ports...)) }, "no model openconfig-acl"},
		} {
			target, _, before := newTarget(t, tc.target)
			err := tc.do(t.Context(), open(t, gnmiset.Config{Connect: connect(target)}))
			if err == nil || !strings.Contains(err.Error(), tc.want) || name != "MTU of 17 bits" && !errors.As(err, new(*vendors.PermanentError)) || target.Config() != before {
				t.Errorf("%s: %v, want %s; %s", name, err, tc.want, target.Config())
			}
		}
	})
}

// TestIdentity: a target's chassis and operating system are what it is; one that does not
// report them, or nothing that can be printed, has no model, and is probed all the same.
func TestIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := vendors.Identity{Maker: octest.Maker, Model: octest.Model, Version: octest.Version, Serial: octest.Serial}
		without := func(change func(*vendors.Identity)) vendors.Identity {
			id := all
			change(&id)
			return id
		}
		for name, tc := range map[string]struct {
			old, new string // of what it answers
			want     vendors.Identity
			note     string
		}{
			"all":              {"", "", all, ""},
			"no model":         {`"model-name"`, `"other"`, without(func(id *vendors.Identity) { id.Model = "X-32-R" }), ""},
			"no system":        {":OPERATING_SYSTEM", ":CPU", without(func(id *vendors.Identity) { id.Version = "" }), ""},
			"no chassis":       {":CHASSIS", ":CPU", vendors.Identity{Version: octest.Version}, ""},
			"not printable":    {octest.Serial, `\u001b[2J`, vendors.Identity{}, "cannot be printed"},
			"long":             {octest.Maker, strings.Repeat("x", 4000), vendors.Identity{}, "of more than"},
			"a type of number": {`"openconfig-platform-types:FAN"`, `[7]`, vendors.Identity{}, "wrong type"},
		} {
			target, _, _ := newTarget(t, func(target *octest.Target) {
				target.Lie = func(r *pb.GetResponse) {
					for _, n := range r.GetNotification() {
						for _, u := range n.GetUpdate() {
							if js := string(u.GetVal().GetJsonIetfVal()); tc.old != "" {
								u.Val.Value = &pb.TypedValue_JsonIetfVal{JsonIetfVal: []byte(strings.ReplaceAll(js, tc.old, tc.new))}
							}
						}
					}
				}
			})
			f, err := open(t, gnmiset.Config{Connect: connect(target)}).Probe(t.Context())
			notes := strings.Join(f.Notes, "\n")
			if err != nil || f.Identity != tc.want || strings.Contains(notes, "its model and version are not known") != (tc.note != "") || !strings.Contains(notes, tc.note) {
				t.Errorf("%s: %+v, %v: %s", name, f.Identity, err, notes)
			}
			if strings.Contains(notes, "\x1b") {
				t.Errorf("%s: %q", name, notes)
			}
		}
	})
}
