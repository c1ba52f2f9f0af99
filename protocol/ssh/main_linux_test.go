package ssh

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/protocol/ssh/sshtest"
	"github.com/csig-agent/csig/vendors/vendorstest/freeport"
)

// TestMain runs the tests in namespaces of their own as root. An ordinary
// user's sshd cannot work inside a user namespace, but does outside of one, for
// that user.
func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	fabric.Tests(m, func() (func(), error) {
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ip link set lo up: %w: %s", err, out)
		}
		return func() {}, nil
	})
}

// server starts an sshd on a port that is free.
func server(t testing.TB, extra ...string) *sshtest.Server {
	t.Helper()
	return serverOf(t, sshtest.Options{Extra: extra})
}

func serverOf(t testing.TB, o sshtest.Options) *sshtest.Server {
	t.Helper()
	o.Port = freeport.TCP(t)
	return sshtest.Start(t, o)
}
