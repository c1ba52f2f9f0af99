package ofp

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/csig-agent/csig/vendors/vendorstest/freeport"
)

// TestGuard: where two controllers are masters of a real switch one after the other, the
// switch refuses the one before, also on a connection that it makes again; one that does not
// own the switch any more sends nothing.
func TestGuard(t *testing.T) {
	s := openVSwitch(t)
	at := freeport.Addr(t)
	_, port, _ := net.SplitHostPort(at)
	s.Vsctl("set-controller", "br0", "ptcp:"+port+":127.0.0.1")
	connected := func() *Conn {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := NewConn(t.Context(), c, Version13)
		if err != nil {
			t.Fatal(err)
		}
		conn.wants = RoleMaster
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	apply := func(c *Conn) error {
		t.Helper()
		_, err := c.Apply(t.Context(), []Mod{{Kind: Add, Flow: &Flow{Priority: 3, Cookie: 7}, Name: "one"}})
		return err
	}
	var lost error
	first, second := connected(), connected()
	var bound []net.Conn
	mine := &Guard{May: func() error { return lost }, Generation: 10, Bound: func(c net.Conn) error { bound = append(bound, c); return nil }}
	first.Guard(mine)
	if len(bound) != 1 {
		t.Errorf("bounded: %v", bound)
	} else if _, is := bound[0].(*net.TCPConn); !is {
		t.Errorf("bounded: a %T", bound[0])
	}
	if err := apply(first); err != nil {
		t.Fatal(err)
	}
	second.Guard(&Guard{May: func() error { return nil }, Generation: 1<<44 | 3})
	if err := apply(second); err != nil {
		t.Fatal(err)
	}
	refused := (*Error)(nil)
	if err := apply(first); !errors.As(err, &refused) || !refused.IsSlave() {
		t.Errorf("the owner before: %v", err)
	}
	again := connected()
	again.Guard(mine)
	if err := apply(again); err == nil || !strings.Contains(err.Error(), "a newer generation") {
		t.Errorf("the owner before, with a new connection: %v", err)
	}
	again.Guard(&Guard{May: mine.May, Generation: 1<<44 | 4}) // it is the owner again
	if err := apply(again); err != nil {
		t.Error(err)
	}
	lost = errors.New("not the owner")
	if err := apply(again); !errors.Is(err, lost) {
		t.Errorf("what may not write: %v", err)
	}
	if _, err := again.Groups(t.Context()); !errors.Is(err, lost) {
		t.Errorf("its connection: %v", err)
	}
}
