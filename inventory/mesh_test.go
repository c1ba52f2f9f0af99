package inventory

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMesh reads how hosts probe each other, and writes it again.
func TestMesh(t *testing.T) {
	f := parse(t, good+`hosts:
  - {name: "gpu-[1-2]", csig: true, address: "192.0.2.[8-9]"}
  - {name: old, address: 2001:db8::7}
  - h1
mesh: {key: {command: [pass, mesh]}, collector: "[2001:db8::7]:9918", tls: {ca: /ca.pem, cert: /ops.pem, key: /ops.key, server_name: c1}}
`)
	for name, want := range map[string]string{"gpu-1": "192.0.2.8", "gpu-2": "192.0.2.9", "old": "2001:db8::7", "h1": ""} {
		if h, known := f.Host(name); !known || h.Address != want {
			t.Errorf("%s: %+v, want the address %q", name, h, want)
		}
	}
	if m := f.Mesh; m == nil || m.Port != 9917 || m.Interval != time.Second || m.Collector != "[2001:db8::7]:9918" || m.Key.Command[1] != "mesh" || m.TLS != (TLS{CA: "/ca.pem", Cert: "/ops.pem", Key: "/ops.key", ServerName: "c1"}) {
		t.Errorf("mesh: %+v", m)
	}
	if s := f.WithoutArguments().Mesh.Key.Command[1]; s == "mesh" || f.Mesh.Key.Command[1] != "mesh" {
		t.Errorf("the arguments of the key's command: %q and %q", s, f.Mesh.Key.Command)
	}
	if s := f.Secrets(); len(s) != 1 || s[0].String() != "command:pass" {
		t.Errorf("its secrets are %v", s)
	}
	text, err := Marshal(f)
	if err != nil || !bytes.Contains(text, []byte("address: \"2001:db8::7\"")) || !bytes.Contains(text, []byte(`collector: "[2001:db8::7]:9918"`)) {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestHostTCP reads which TCP connections of a host have tags, and writes it again.
func TestHostTCP(t *testing.T) {
	text := strings.NewReplacer("tpid: 0x9900", "tpid: 0x88a8", "policy:", "vlan_tpids: [0x8100]\npolicy:").Replace(good)
	f := parse(t, text+`hosts:
  - {name: "h[1-2]", csig: true, tcp: {to: [10.0.0.0/8, "2001:db8::/32"], ports: [443, 8000-8999], cgroup: /sys/fs/cgroup/web.slice, tag: 1/8, option: 200}}
  - {name: h3, csig: true, tcp: {to: [10.0.0.0/8]}}
`)
	one, _ := f.Host("h2")
	if got := one.TCP; got == nil || !slices.Equal(got.To, []string{"10.0.0.0/8", "2001:db8::/32"}) || !slices.Equal(got.PortRanges(), [][2]uint16{{443, 443}, {8000, 8999}}) || got.CGroup != "/sys/fs/cgroup/web.slice" || got.Every() != 8 || got.Option != 200 {
		t.Errorf("%+v", got)
	}
	three, _ := f.Host("h3")
	if got := three.TCP; got == nil || len(got.PortRanges()) != 0 || got.Every() != 1 || got.Option != 253 {
		t.Errorf("%+v", got)
	}
	written, err := Marshal(f)
	if err != nil || !bytes.Contains(written, []byte("tcp: {to: [10.0.0.0/8], tag: all, option: 253}")) {
		t.Errorf("%v\n%s", err, written)
	}
	if jump, ramp := three.TCP.Shares(); three.TCP.Control == ControlCSIG || jump != 8 || ramp != 2 {
		t.Errorf("%+v", three.TCP)
	}
	g := parse(t, text+"hosts: [{name: h1, csig: true, tcp: {to: [10.0.0.0/8], control: csig, jump: 1/4, ramp: all}}]\n")
	if jump, ramp := g.Hosts[0].TCP.Shares(); g.Hosts[0].TCP.Control != ControlCSIG || jump != 4 || ramp != 1 {
		t.Errorf("%+v", g.Hosts[0].TCP)
	}
	if written, err := Marshal(g); err != nil || !bytes.Contains(written, []byte("option: 253, control: csig, jump: 1/4, ramp: all}")) {
		t.Errorf("%v\n%s", err, written)
	}
	with := f.Hash()
	three.TCP.Tag = "1/2"
	if f.Hash() == with {
		t.Error("the hash does not have it")
	}
	if without := g.Hash(); func() bool { g.Hosts[0].TCP.Ramp = "1/2"; return g.Hash() == without }() {
		t.Error("the hash does not have a share")
	}
}
