package owner

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// front takes the connections of clients for the NATS server of this process, which listens at a
// loopback address. The server counts each connection as a client before it knows whose it is, so
// that any host could keep the clients out: here those that have not shown a listed certificate
// make room for others, the oldest first.
type front struct {
	ln     net.Listener
	server func() net.Addr // where the server listens now; nil: nowhere
	log    *natsLog

	wg    sync.WaitGroup
	mu    sync.Mutex
	ended bool
	open  []*guest // by age
}

// guest is a connection at the front.
type guest struct {
	net.Conn
	inner net.Conn // to the server
	name  string   // of its listed certificate; "" until it has shown that the key is its own
	told  bool     // the log has why it is refused
}

// clientConns is how many connections one certificate may have: a controller has one.
const clientConns = maxClients / 8

func (f *front) serve() {
	for {
		c, err := f.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // there are too many files
			time.Sleep(roomPause / 10)
			continue
		}
		f.wg.Go(func() { f.carry(&guest{Conn: c}) })
	}
}

// carry copies between a guest and the server until either ends it.
func (f *front) carry(g *guest) {
	defer g.Close()
	at := f.server()
	if at == nil { // it has stopped, and is started again
		return
	}
	inner, err := net.Dial("tcp", at.String())
	if err != nil {
		return
	}
	defer inner.Close()
	g.inner = inner
	if !f.admit(g) {
		return
	}
	defer f.leave(g)
	f.wg.Go(func() { _, _ = io.Copy(inner, g.Conn); inner.Close() })
	_, _ = io.Copy(hasty{g.Conn}, inner)
}

// hasty is a connection whose other end has to take what it is sent within a time.
type hasty struct{ net.Conn }

func (h hasty) Write(p []byte) (int, error) {
	if err := h.SetWriteDeadline(time.Now().Add(takeTime)); err != nil {
		return 0, err
	}
	return h.Conn.Write(p)
}

// takeTime is that of the NATS server, too.
const takeTime = 10 * time.Second

// admit takes a guest in, in place of the oldest that is not known where there are too many.
func (f *front) admit(g *guest) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.open) >= maxClients {
		i := slices.IndexFunc(f.open, func(o *guest) bool { return o.name == "" })
		if i < 0 {
			return false
		}
		f.open[i].told = true // the newer ones are as many lines
		f.open[i].Close()
		f.open = slices.Delete(f.open, i, i+1)
	}
	if !f.ended {
		f.open = append(f.open, g)
	}
	return !f.ended
}

func (f *front) leave(g *guest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = slices.DeleteFunc(f.open, func(o *guest) bool { return o == g })
	if g.name == "" && !g.told && !f.ended { // the server knows it by an address of this machine
		f.log.line(auditLevel, "the connection of %s ended without a listed certificate", []any{g.RemoteAddr()})
	}
}

// from is whose connection the server sees: that of the front's other side, where there is one.
func (f *front) from(remote string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.find(remote); g != nil {
		return g.RemoteAddr().String()
	}
	return remote
}

func (f *front) find(remote string) *guest {
	for _, g := range f.open {
		if g.inner.LocalAddr().String() == remote {
			return g
		}
	}
	return nil
}

// refused notes that the log has why a connection is refused.
func (f *front) refused(remote string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.find(remote); g != nil {
		g.told = true
	}
}

// meet notes whose connection it is, unless that one has too many.
func (f *front) meet(remote, name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.find(remote)
	if g == nil {
		f.log.line(auditLevel, "%s, a client with the certificate of %s, does not come by way of --clients-at: refused", []any{remote, name})
		return false
	}
	n := 0
	for _, o := range f.open {
		if o.name == name {
			n++
		}
	}
	if n >= clientConns {
		g.told = true
		f.log.line(auditLevel, "%s: the certificate of %s has %d connections already: refused", []any{g.RemoteAddr(), name, n})
		return false
	}
	g.name = name
	return true
}

// close ends it, and its connections.
func (f *front) close() {
	_ = f.ln.Close()
	f.mu.Lock()
	f.ended = true
	for _, g := range f.open {
		g.Close()
		g.inner.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}
