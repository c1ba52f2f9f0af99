package api

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOffMark(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for socket, want := range map[string]string{
		"/run/csig/agent.sock":           "/var/lib/csig/csig-agent.sock.off",
		"/var/run/csig/agent.sock":       "/var/lib/csig/csig-agent.sock.off", // a link to /run
		"/run//other/../csig/agent.sock": "/var/lib/csig/csig-agent.sock.off",
		"/run/user/7/csig/agent.sock":    "/run/user/7/csig/agent.sock.off",
		"/running/agent.sock":            "/running/agent.sock.off",
		"/var/lib/csig/agent.sock":       "/var/lib/csig/agent.sock.off",
		"agent.sock":                     filepath.Join(here, "agent.sock.off"),
	} {
		if got := OffMark(socket); got != want {
			t.Errorf("%s: %s, want %s", socket, got, want)
		}
	}
}
