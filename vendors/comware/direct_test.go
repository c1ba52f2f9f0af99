package comware

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/csig-agent/csig/protocol/cli"
	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/cli/qos"
	"github.com/csig-agent/csig/vendors/comware/comwaretest"
)

// direct is a session with a fake switch in this process, for tests of very many: no SSH.
type direct struct {
	clitest.Shell
	cut  *cut
	dead error
}

// cut ends the session at a line: before it is carried out, or after.
type cut struct {
	left  int // lines until then; negative: never again
	after bool
}

var errCut = errors.New("the session was cut")

func (d *direct) line(line string) (string, error) {
	if d.dead != nil {
		return "", d.dead
	}
	now := d.cut.left == 0
	if d.cut.left--; now && !d.cut.after {
		d.dead = errCut
		return "", d.dead
	}
	answer, _ := d.Do(line)
	if now {
		d.dead = errCut
		return "", d.dead
	}
	return answer, nil
}

func (d *direct) Configure(_ context.Context, commands []string) error {
	if _, err := d.line("system-view"); err != nil {
		return err
	}
	for i, c := range commands {
		answer, err := d.line(c)
		if err == nil && answer != "" {
			err = &cli.RefusedError{Line: i, Command: c, Answer: answer}
		}
		if err != nil {
			d.Do("return")
			return err
		}
	}
	_, err := d.line("return")
	return err
}

func (d *direct) Run(_ context.Context, command string) ([]string, error) {
	answer, err := d.line(command)
	return strings.Split(strings.TrimRight(answer, "\n"), "\n"), err
}

func (d *direct) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 22} }

func (d *direct) Err() error { return d.dead }

func (d *direct) Close() error {
	d.dead = errCut
	return nil
}

// near is a bench whose sessions are direct, and whose TPIDs are the defaults. Its cut
// never ends one.
func near(t testing.TB) (*bench, *cut) {
	t.Helper()
	return nearAt(t, qos.Inner)
}

// nearAt is near where CSIG's tag is this one.
func nearAt(t testing.TB, at qos.Position) (*bench, *cut) {
	t.Helper()
	b := &bench{Switch: comwaretest.New("H3C", xge1, xge2)}
	c := &cut{left: -1}
	b.driver = Open(Config{Outer: at == qos.Outer, Updates: true, Listen: b.listen, Dial: func(context.Context) (qos.Session, error) {
		return &direct{Shell: b.Shell(), cut: c}, nil
	}})
	t.Cleanup(func() { b.driver.Close() })
	return b, c
}

// quick is a bench without SSH.
func quick(t testing.TB) *bench {
	t.Helper()
	b, _ := near(t)
	return b
}
