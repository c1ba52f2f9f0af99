package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/controller/owner"
	"github.com/csig-agent/csig/fabric"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/clitest/plane"
)

// TestLongFormerLogin has two controllers share a switch with a command line through a NATS
// server. One that takes over ends the login of the owner before, which was stopped and is
// not gone, and then need not wait until its writes have arrived: the switch's own log has
// nothing of a former owner behind that.
func TestLongFormerLogin(t *testing.T) {
	t.Parallel()
	const term = 3 * time.Second
	p, hosts := plane.New(t, 3), [2]*fabric.Node{newHost(t, "here"), newHost(t, "there")}
	here := hosts[0]
	platform := cliPlatforms["vrp"]
	sw := platform.start(t, p, here)
	var cli *clitest.Server
	if err := here.Do(func() error { cli = clitest.New(t, sw.shell); return nil }); err != nil {
		t.Fatal(err)
	}
	startSnmpd(t, p.Node(), snmpdPort, nil, "")
	url := startNATS(t, here)
	givenUp(t, here, url, "sw1")
	for _, port := range []int{int(cli.Login.Port), natsPort} {
		relayTCP(t, hosts[1], here, port)
	}

	l := cli.Login
	text := fmt.Sprintf(cliText, platform.tpid, "vrp", "lease: none", l.User, l.Port, l.Password.File, l.KnownHosts, "", fmt.Sprintf("{source: snmp, snmp: {version: 2c, port: %d, community: {file: DIR/community}}}", snmpdPort))
	var ops [2]*operator
	var where [2]*agent
	for i := range ops {
		relayUDP(t, hosts[i], p.Node(), snmpdPort)
		ops[i] = newOperator(t, hosts[i], text)
		if err := os.WriteFile(filepath.Join(ops[i].dir, "community"), []byte("public\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("c%d", i+1)
		where[i] = launchIn(t, hosts[i].Command(csigController, "-i", ops[i].fleet, "--state", filepath.Join(ops[i].dir, "state"), "--name", name, "--term", term.String(), "--nats", url, "--replicas", "1"), filepath.Join(ops[i].dir, "sw1.sock"))
		where[i].await("that "+name+" owns the switch if it is the first", func(s *api.Status) bool {
			return strings.Contains(s.Waiting, "this one takes over") == (i > 0)
		})
	}
	p.Load(t, 2, cliLoads[0])
	plan := filepath.Join(ops[0].dir, "up.plan")
	ops[0].run(2, "plan", "-i", ops[0].fleet, "-o", plan)
	ops[0].run(0, "apply", plan, "--soak", "50ms")
	where[0].await("that its port is live", live)

	former := map[*clitest.Login]bool{}
	for _, login := range cli.Logins() {
		former[login] = true
	}
	for i, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		owner, next := where[i%2], where[1-i%2]
		begin := time.Now()
		if err := owner.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		next.await("that it has taken over", live)
		t.Logf("live again %v after %v", time.Since(begin).Round(10*time.Millisecond), signal)
		if signal == syscall.SIGSTOP {
			if !strings.Contains(next.log.String(), "the former owner is logged in no more") || strings.Contains(next.log.String(), "waited out") {
				t.Errorf("the next owner's log:\n%s", next.log.String())
			}
			if err := owner.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			owner.await("that it waits", func(s *api.Status) bool { return strings.Contains(s.Waiting, "this one takes over") })
			for _, login := range cli.Logins() {
				if former[login] {
					t.Errorf("the former owner is logged in at line %d", login.Line)
				}
			}
		}
	}
	ended := false
	for _, line := range cli.Log() {
		if ended = ended || strings.HasPrefix(line.Text, "free user-interface"); ended && former[line.By] {
			t.Errorf("of the former owner, carried out after its login was ended: %s", line.Text)
		}
	}
	if !ended {
		t.Error("no login was ended")
	}
	ops[0].run(0, "off", "-i", ops[0].fleet)
}

// givenUp has an owner of before give a device up: of a key that is not there it is unknown what
// is logged in, and the first owner waits.
func givenUp(t *testing.T, here *fabric.Node, url, device string) {
	t.Helper()
	log := logrus.NewEntry(logrus.New())
	var nc *nats.Conn
	if err := here.Do(func() (err error) { nc, err = owner.Connect(url, "before", "", nil, log); return err }); err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	store, err := owner.Open(nc, owner.Config{Name: "before", Term: owner.MinTerm, Replicas: 1, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	lease, _, err := store.Own(t.Context(), device)
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Close(t.Context(), false); err != nil {
		t.Fatal(err)
	}
}

// relayTCP has connections to a port of one namespace's loopback go to that of another.
func relayTCP(t testing.TB, from, to *fabric.Node, port int) {
	t.Helper()
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	var l net.Listener
	if err := from.Do(func() (err error) { l, err = net.Listen("tcp", at); return err }); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer in.Close()
				var out net.Conn
				if err := to.Do(func() (err error) { out, err = net.Dial("tcp", at); return err }); err != nil {
					return
				}
				defer out.Close()
				context.AfterFunc(ctx, func() { in.Close(); out.Close() })
				wg.Go(func() { _, _ = io.Copy(in, out); in.Close() })
				_, _ = io.Copy(out, in)
			})
		}
	})
	t.Cleanup(func() { l.Close(); stop(); wg.Wait() })
}

// natsPort is the server's.
const natsPort = 4222

// startNATS starts a server with JetStream on a host's loopback.
func startNATS(t *testing.T, here *fabric.Node) (url string) {
	t.Helper()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: natsPort, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if err := here.Do(func() error { ns.Start(); return nil }); err != nil { // it listens before Start returns
		t.Fatal(err)
	}
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the NATS server is not ready")
	}
	return fmt.Sprintf("nats://127.0.0.1:%d", natsPort)
}
