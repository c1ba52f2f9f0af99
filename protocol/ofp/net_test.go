package ofp

import (
	"context"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/csig-agent/csig/protocol/memnet"
)

// network is one in memory, with addresses of TCP.
type network struct {
	mu sync.Mutex
	at map[string]*memnet.Listener
}

func newNetwork() *network { return &network{at: map[string]*memnet.Listener{}} }

func (n *network) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.at[address]
	n.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	return l.Dial(ctx)
}

func (n *network) Listen(_, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := 40000; port == "0"; p++ {
		if free := net.JoinHostPort(host, strconv.Itoa(p)); n.at[free] == nil {
			address, port = free, ""
		}
	}
	if n.at[address] != nil {
		return nil, &net.OpError{Op: "listen", Err: syscall.EADDRINUSE}
	}
	n.at[address] = memnet.Listen(address)
	return &listens{n.at[address], n}, nil
}

// listens is an address that is free again when it is closed.
type listens struct {
	*memnet.Listener
	n *network
}

func (l *listens) Close() error {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	delete(l.n.at, l.Addr().String())
	return l.Listener.Close()
}

// dialed is a connection with what listens at an address.
func dialed(t *testing.T, n Network, to string) net.Conn {
	t.Helper()
	c, err := n.Dial(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
