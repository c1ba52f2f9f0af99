package main

import (
	"testing"

	"github.com/csig-agent/csig/inventory"
)

// TestVia has plans show how each device is reached, and as which user.
func TestVia(t *testing.T) {
	admin := &inventory.SSH{User: "admin", Port: 22, Sudo: &inventory.Sudo{Password: inventory.Secret{File: "/etc/csig/sudo"}}}
	for _, row := range []struct {
		want string
		how  inventory.Management
	}{
		{"ssh root@192.0.2.1", inventory.Management{SSH: &inventory.SSH{User: "root"}}},
		{"ssh admin@192.0.2.1, sudo", inventory.Management{SSH: admin}},
		{"daemon /run/csig/agent.sock over ssh 192.0.2.1", inventory.Management{SSH: admin, Daemon: &inventory.Daemon{Socket: "/run/csig/agent.sock"}}},
		{"ssh root@192.0.2.1:2222", inventory.Management{SSH: &inventory.SSH{User: "root", Port: 2222}}},
		{"netns /run/netns/s1", inventory.Management{NetNS: "/run/netns/s1"}},
	} {
		if got := (&reach{}).via(&inventory.Device{Address: "192.0.2.1", Management: row.how}); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
}
