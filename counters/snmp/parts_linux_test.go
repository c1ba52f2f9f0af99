package snmp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a real agent answers in parts of any size is what the kernel counts, through both
// versions.
func TestSnmpdInParts(t *testing.T) {
	d := startDaemon(t)
	link := addVeth(t, "tor0", "host0")
	ports := []string{"tor0", "host0"}
	awaitUp(t, ports)
	d.cache(t, 0)
	for _, cfg := range []Config{d.config(ports...), d.user("sha512", "SHA512", "AES256", ports...)} {
		for _, most := range []int{1, 2, 3, 4, 8, 11} {
			s := open(t, cfg)
			s.limit, s.ceiling = most, most
			for round := range 3 {
				send(t, link, 10+most, 64+100*round)
				for _, smp := range mustRead(t, s) {
					want := kernel(t, smp.Port)
					if smp.Octets != want.TxBytes || smp.Packets != want.TxPackets || !smp.Up || smp.Speed != 10e9 {
						t.Fatalf("%s, %d bindings, %s: %+v, kernel %d %d", cfg.Version, most, smp.Port, smp, want.TxBytes, want.TxPackets)
					}
				}
			}
			if s.plan.full[0].size() > most {
				t.Errorf("%d bindings at once, want %d", s.plan.full[0].size(), most)
			}
		}
	}
}

// A real agent whose messages are so small that hardly one port fits into each.
func TestSnmpdWithSmallMessages(t *testing.T) {
	d := startDaemon(t)
	d.stop()
	// The user, its protocols and the engine's id take the better part of a message.
	user := strings.Repeat("u", 32)
	conf := fmt.Sprintf("agentaddress udp:127.0.0.1:%d\nrwcommunity public\nengineID %s\ncreateUser %s SHA-512 \"auth-pass-phrase\" AES-256 \"priv-pass-phrase\"\nrouser %s priv\n[snmp] sendMessageMaxSize 484\n",
		d.port, strings.Repeat("e", 27), user, user)
	if err := os.WriteFile(filepath.Join(d.dir, "test.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	var ports []string
	for i := range 6 {
		ports = append(ports, fmt.Sprintf("longportname%03d", i))
		addVeth(t, ports[i], fmt.Sprintf("peer%d", i))
	}
	awaitUp(t, ports)
	d.start(t)
	d.cache(t, 0)
	s := open(t, d.user(user, "SHA512", "AES256", ports...))
	for range 3 {
		for _, smp := range mustRead(t, s) {
			want := kernel(t, smp.Port)
			if smp.Octets != want.TxBytes || smp.Packets != want.TxPackets {
				t.Fatalf("%+v, kernel %d %d", smp, want.TxBytes, want.TxPackets)
			}
		}
	}
	if s.limit > 2*rowOIDs {
		t.Errorf("limit %d: the messages are not small", s.limit)
	}
}
