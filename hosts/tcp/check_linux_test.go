package tcp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/inventory"
)

func TestMain(m *testing.M) { fabric.Tests(m, nil) }

const fleetText = `format: csig.fleet/v1
profile: {name: lab, tpid: 0x88a8, interval: 1s, signals: {abw: {buckets: log-10G}, abwc: {buckets: log}}}
vlan_tpids: [0x8100]
devices:
  - {name: s1, platform: linux, ports: [{name: up, speed: 10G, lm: 5, peer: "s2:back"}, {name: host, speed: 10G, lm: 6, peer: h1}]}
  - {name: s2, platform: linux, ports: [{name: back, speed: 10G, lm: 7, peer: "s1:up"}, {name: host, speed: 10G, lm: 6, peer: h2}, {name: side, speed: 10G, lm: 8, peer: h3}]}
hosts:
  - {name: h1, csig: true, address: 10.0.0.1, local: true, interface: eth0, tcp: {to: [10.0.0.0/24, "fd00::/64"]}}
  - {name: h2, csig: true, address: 10.0.0.2}
  - {name: h3, csig: true, address: 10.0.0.3}
`

func parse(t *testing.T, text string) *inventory.Fleet {
	t.Helper()
	f, err := inventory.Parse("fleet.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func local(t *testing.T) *Config {
	t.Helper()
	cfg, err := Local(parse(t, fleetText))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestCheckHere looks at the machine of the test, which has what csig host run needs.
func TestCheckHere(t *testing.T) {
	c := Look(nil)
	for _, p := range c.Parts {
		t.Logf("%v %s: %s", p.OK, p.Name, p.Reason)
	}
	if !c.OK || len(c.Parts) != 8 {
		t.Errorf("%+v", c)
	}
}

// TestCheck looks at machines that miss something.
func TestCheck(t *testing.T) {
	whole := func() probes {
		nothing := func() error { return nil }
		return probes{
			release: func() string { return "6.12.48+deb13-amd64" },
			rights:  nothing, tcx: nothing, sockops: nothing,
			control: func(*Config) error { return nil },
			load:    func(*Config) error { return nil },
			symbol:  func(string) (bool, error) { return true, nil },
			cgroup:  func(*Config) (string, error) { return "/sys/fs/cgroup", nil },
			bpffs:   func() (string, error) { return "/sys/fs/bpf", nil },
			link: func(string) (netlink.Link, error) {
				return &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "eth0", MTU: 1500, EncapType: "ether"}}, nil
			},
			features: func(int) (map[string]bool, error) {
				return map[string]bool{"tx-vlan-stag-hw-insert": true, "rx-vlan-stag-hw-parse": true}, nil
			},
			room: func(netip.Prefix, netlink.Link) error { return nil },
		}
	}
	no := errors.New("no")
	for _, row := range []struct {
		name    string
		missing func(*probes)
		works   bool
		want    string // parts that are not ok, each with a piece of its reason and of what to do
	}{
		{"nothing", func(*probes) {}, true, ""},
		{"Debian 12", func(p *probes) {
			p.release = func() string { return "6.1.0-37-amd64" }
			p.tcx = func() error { return fmt.Errorf("query programs: %w", unix.EINVAL) }
		}, false, "tcx: Linux 6.1.0-37-amd64 has no tcx, which came with 6.6 → Debian 13 has 6.12"},
		{"rights", func(p *probes) { p.rights = func() error { return no } }, false, "rights: no → run csig as root"},
		{"sockops", func(p *probes) { p.sockops = func() error { return no } }, false, "sockops: cannot write TCP options → CONFIG_CGROUP_BPF"},
		{"a program", func(p *probes) { p.load = func(*Config) error { return no } }, false, "programs: no → use Linux 6.6"},
		{"a congestion control", func(p *probes) { p.control = func(*Config) error { return no } }, true, "control: the system's congestion control: no → CONFIG_BPF_JIT"},
		{"control groups", func(p *probes) { p.cgroup = func(*Config) (string, error) { return "", no } }, false, "cgroup: no → "},
		{"8021q", func(p *probes) { p.symbol = func(string) (bool, error) { return false, nil } }, true, "gro: CONFIG_VLAN_8021Q → rx-vlan-stag-hw-parse"},
		{"no BPF file system", func(p *probes) { p.bpffs = func() (string, error) { return "", no } }, true, "maps: no → "},
		{"a kernel's list", func(p *probes) { p.symbol = func(string) (bool, error) { return false, no } }, true, "gro: no → "},
		{"an interface", func(p *probes) { p.link = func(string) (netlink.Link, error) { return nil, no } }, false, "interface: eth0: no → ip link"},
		{"a tunnel", func(p *probes) {
			p.link = func(string) (netlink.Link, error) {
				return &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "eth0", EncapType: "none"}}, nil
			}
		}, false, "interface: eth0: it has no Ethernet frames (its link is none) → ip link"},
		{"offloads", func(p *probes) { p.features = func(int) (map[string]bool, error) { return nil, nil } }, true,
			"tx-vlan-stag-hw-insert: off at eth0 → ethtool -K eth0 tx-vlan-stag-hw-insert on; rx-vlan-stag-hw-parse: off at eth0 → ethtool -K eth0 rx-vlan-stag-hw-parse on"},
		{"an answer of the card", func(p *probes) { p.features = func(int) (map[string]bool, error) { return nil, no } }, true, "tx-vlan-stag-hw-insert: no → ; rx-vlan-stag-hw-parse: no → "},
		{"room", func(p *probes) {
			p.room = func(to netip.Prefix, _ netlink.Link) error {
				if to.Addr().Is4() {
					return no
				}
				return nil
			}
		}, false, "room to 10.0.0.0/24: no → "},
		{"room of a route", func(p *probes) {
			p.room = func(netip.Prefix, netlink.Link) error { return &noRoomError{"too long", "ip route"} }
		}, false, "room to 10.0.0.0/24: too long → ip route; room to fd00::/64: too long → ip route"},
		{"a route", func(p *probes) { p.room = func(netip.Prefix, netlink.Link) error { return errNoRoute } }, true, "room to 10.0.0.0/24: no route → ; room to fd00::/64: no route → "},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := whole()
			row.missing(&p)
			c := p.check(local(t))
			var found []Part
			for _, part := range c.Parts {
				if !part.OK {
					found = append(found, part)
				} else if part.Next != "" || part.Reason == "" {
					t.Errorf("%+v", part)
				}
			}
			var want []string
			if row.want != "" {
				want = strings.Split(row.want, "; ")
			}
			if c.OK != row.works || len(found) != len(want) || c.Host != "h1" {
				t.Fatalf("works: %v; %+v", c.OK, found)
			}
			for i, text := range want {
				name, rest, _ := strings.Cut(text, ": ")
				reason, next, _ := strings.Cut(rest, " → ")
				if f := found[i]; f.Name != name || !strings.Contains(f.Reason, reason) || !strings.Contains(f.Next, next) {
					t.Errorf("want %q, got %+v", text, f)
				}
			}
		})
	}
}

// TestCheckWide has a profile with wide tags, too.
func TestCheckWide(t *testing.T) {
	cfg, err := Local(parse(t, strings.NewReplacer("tpid: 0x88a8", "tpid: 0x88a8, wide_tpid: 0x9901", "log-10G}", "log-10G, quantum: 1Mbit/s}", "log}", "log, quantum: 1ppm}").Replace(fleetText)))
	if err != nil {
		t.Fatal(err)
	}
	parts := Look(cfg).Parts
	if i := slices.IndexFunc(parts, func(p Part) bool { return p.Name == "wide tags" }); i < 0 || parts[i].OK || parts[i].Needed || !strings.Contains(parts[i].Reason, "0x9901") {
		t.Errorf("%+v", parts)
	}
}

// TestRoutes has routes of several kinds, and what gives them room.
func TestRoutes(t *testing.T) {
	n, err := fabric.NewNS("routes")
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	err = n.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = "eth0", 1500
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth1"}); err != nil {
			return err
		}
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		addr, _ := netlink.ParseAddr("192.0.2.1/24")
		if err := errors.Join(netlink.LinkSetUp(l), netlink.AddrAdd(l, addr)); err != nil {
			return err
		}
		add := func(text string) {
			to := netip.MustParsePrefix(strings.Fields(text)[0])
			r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), to.Addr().BitLen())}}
			if _, via, found := strings.Cut(text, "via "); found {
				r.Gw = netip.MustParseAddr(strings.Fields(via)[0]).AsSlice()
			}
			if _, mtu, found := strings.Cut(text, "mtu "); found {
				if _, err := fmt.Sscan(mtu, &r.MTU); err != nil {
					t.Fatal(err)
				}
			}
			if _, table, found := strings.Cut(text, "table "); found {
				if _, err := fmt.Sscan(table, &r.Table); err != nil {
					t.Fatal(err)
				}
			}
			if err := netlink.RouteAdd(r); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		add("10.1.0.0/16 via 192.0.2.9 mtu 1496")
		add("10.2.0.0/16 via 192.0.2.9")
		add("10.2.3.0/24 via 192.0.2.9 mtu 1400")
		add("172.16.0.0/16 via 192.0.2.9 mtu 1496")
		add("172.16.0.0/16 via 192.0.2.9 table 100")
		add("172.17.0.0/16 via 192.0.2.9 mtu 1400 table 100")
		add("172.18.0.0/16 via 192.0.2.9 table 101")
		rule := netlink.NewRule()
		rule.Table, rule.Mark, rule.Priority = 100, 7, 1000
		if err := netlink.RuleAdd(rule); err != nil {
			return err
		}
		for _, row := range []struct{ to, want string }{
			{"192.0.2.0/24", "ip route replace 192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.1 mtu 1496"},
			{"192.0.2.64/26", "ip route replace 192.0.2.0/24 dev eth0"},
			{"10.1.0.0/16", ""},
			{"10.1.9.0/24", ""},
			{"10.2.3.0/24", ""},
			{"10.2.3.7/32", ""},
			{"10.2.0.0/16", "ip route replace 10.2.0.0/16 via 192.0.2.9 dev eth0 proto boot mtu 1496"},
			{"10.2.9.0/24", "ip route replace 10.2.0.0/16 via 192.0.2.9"},
			{"10.0.0.0/8", "ip route replace 10.2.0.0/16 via 192.0.2.9"},
			{"10.3.0.0/16", "no route"},
			{"172.16.0.0/16", "ip route replace 172.16.0.0/16 via 192.0.2.9 dev eth0 proto boot table 100 mtu 1496"},
			{"172.17.1.0/24", ""},
			{"172.18.0.0/16", "no route"}, // no rule names its table
			{"2001:db8::/32", "no route"},
		} {
			err := roomTo(netip.MustParsePrefix(row.to), l)
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("%s: %v, want %q", row.to, err, row.want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLoad has the kernel take the programs with all that a configuration may be.
func TestLoad(t *testing.T) {
	for _, tcp := range []inventory.TCP{
		{Tag: "all", Option: 253, To: []string{"0.0.0.0/0", "::/0"}},
		{Tag: "1/8", Option: 200, To: []string{"10.0.0.7/32"}, Ports: []string{"443", "8000-65535"}},
	} {
		cfg := local(t)
		cfg.Host.TCP = &tcp
		p, err := cfg.load(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		ports := map[uint32]bool{0: len(tcp.Ports) == 0, 443: true, 444: len(tcp.Ports) == 0, 8000: true, 1<<16 - 1: true}
		for port, want := range ports {
			var bits uint64
			if err := p.Ports.Lookup(port>>6, &bits); err != nil || bits>>(port&63)&1 == 1 != want {
				t.Errorf("port %d: %x, %v", port, bits, err)
			}
		}
		if flows, more, err := p.connections(); err != nil || more || len(flows) > 0 {
			t.Errorf("%v, %v, %v", flows, more, err)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
}
