package snmp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gosnmp/gosnmp"

	"github.com/csig-agent/csig/counters"
	"github.com/csig-agent/csig/counters/snmp/snmptest"
)

// lldpOverrides lets snmpd answer LLDP-MIB: port 1 is that of the given ifIndex, by its name;
// port 77 is none that it describes.
func lldpOverrides(port string) string {
	var b strings.Builder
	put := func(kind, value string, arcs ...int) {
		fmt.Fprintf(&b, "override 1.0.8802.1.1.2.1%s %s %s\n", strings.ReplaceAll(strings.Trim(fmt.Sprint(append([]int{-1}, arcs...)), "[]"), " ", ".")[2:], kind, value)
	}
	put("octet_str", port, 3, 7, 1, 3, 1)
	for _, r := range []struct {
		port               int
		system, peer, text string
	}{{1, "spine1.example.net", "swp7", "to_leaf"}, {77, "printer", "lan", "\"\""}} {
		put("integer", "4", 4, 1, 1, 4, 900, r.port, 1)
		put("octet_str", "abcdef", 4, 1, 1, 5, 900, r.port, 1)
		put("integer", "5", 4, 1, 1, 6, 900, r.port, 1)
		put("octet_str", r.peer, 4, 1, 1, 7, 900, r.port, 1)
		put("octet_str", r.text, 4, 1, 1, 8, 900, r.port, 1)
		put("octet_str", r.system, 4, 1, 1, 9, 900, r.port, 1)
	}
	return b.String()
}

// The real agent is listed as it is, with each version.
func TestScanSnmpd(t *testing.T) {
	link := addVeth(t, "tor0", "host0")
	addVeth(t, "tor1", "host1")
	d := startDaemon(t)
	d.stop()
	conf := filepath.Join(d.dir, "test.conf")
	text, err := os.ReadFile(conf)
	if err == nil {
		err = os.WriteFile(conf, append(text, "sysName leaf1\n"+lldpOverrides("tor0")...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.start(t)
	d.cache(t, 0)
	alias := gosnmp.SnmpPDU{Name: ifAlias.at(uint32(link.Attrs().Index)).dotted(), Type: gosnmp.OctetString, Value: "to spine1"}
	if r, err := d.client(t).Set([]gosnmp.SnmpPDU{alias}); err != nil || r.Error != gosnmp.NoError {
		t.Fatalf("set ifAlias: %v, %v", err, r)
	}
	for _, cfg := range []Config{d.config(), d.user("sha256", "SHA256", "AES")} {
		t.Run(string(cfg.Version), func(t *testing.T) {
			l, err := Scan(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if l.Name != "leaf1" || !strings.HasPrefix(l.Description, "Linux ") || l.Uptime <= 0 || len(l.Notes) != 0 {
				t.Errorf("%+v", l)
			}
			i := slices.IndexFunc(l.Interfaces, func(p counters.Interface) bool { return p.Name == "tor0" })
			if i < 0 {
				t.Fatalf("%+v", l.Interfaces)
			}
			want := counters.Interface{
				Index: uint32(link.Attrs().Index), Name: "tor0", Alias: "to spine1", Speed: 10e9, OperStatus: "up",
				Wide: []string{"ifHCOutOctets", "ifHCOutUcastPkts", "ifHCOutMulticastPkts", "ifHCOutBroadcastPkts"},
				Uses: []string{"ifHCOutOctets", "ifHCOutUcastPkts", "ifHCOutMulticastPkts", "ifHCOutBroadcastPkts"},
			}
			if got := l.Interfaces[i]; fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
				t.Errorf("%+v\nwant %+v", got, want)
			}
			peers := []counters.Neighbor{
				{Port: "tor0", Chassis: "61:62:63:64:65:66", System: "spine1.example.net", PeerPort: "swp7", PeerText: "to_leaf", PeerKind: counters.NamePortID},
				{Port: "LLDP port 77", Chassis: "61:62:63:64:65:66", System: "printer", PeerPort: "lan", PeerKind: counters.NamePortID},
			}
			if !slices.Equal(l.Neighbors, peers) {
				t.Errorf("%+v\nwant %+v", l.Neighbors, peers)
			}
			s := open(t, withPorts(cfg, "tor0"))
			if self, got, err := s.Neighbors(t.Context()); err != nil || self != "leaf1" || !slices.Equal(got, peers) {
				t.Errorf("Neighbors: %s, %+v, %v", self, got, err)
			}
		})
	}
}

func withPorts(cfg Config, ports ...string) Config {
	cfg.Ports = ports
	return cfg
}

// A device without LLDP says so, and its interfaces are listed all the same.
func TestScanWithoutLLDP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cfg := inMemory(t, 3, nil)
		l, err := Scan(t.Context(), cfg)
		if err != nil || len(l.Interfaces) != 3 || len(l.Neighbors) != 0 || !slices.Equal(l.Notes, []string{"neighbours: it answers nothing about LLDP"}) {
			t.Errorf("%+v, %v", l, err)
		}
		if _, _, err := open(t, cfg).Neighbors(t.Context()); !errors.Is(err, counters.ErrNoLLDP) {
			t.Errorf("%v", err)
		}
	})
}

// No device, however hostile, makes a scan take longer than its context, or puts anything on a
// terminal that does not belong there.
func TestScanHostile(t *testing.T) {
	t.Parallel()
	for name, do := range snmptest.Hostile() {
		bubble(t, name, func(t *testing.T) {
			a, cfg := inMemory(t, 40, do)
			cfg.Timeout = 100 * time.Millisecond
			a.Neighbor(1, "\x1b[2Jspine1\r\n", "swp\x00")
			const limit = time.Second // ten answers that do not come
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began := time.Now()
			l, err := Scan(ctx, cfg)
			if took := time.Since(began); took > limit {
				t.Errorf("took %v", took)
			}
			if text := fmt.Sprintf("%+v %v", l, err); strings.ContainsAny(text, "\x1b\r\n\x00") {
				t.Errorf("%q", text)
			}
		})
	}
}
