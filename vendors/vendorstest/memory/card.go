package memory

import (
	"net"
	"sync"
	"syscall"
	"time"
)

// queued is how many frames a card keeps until they are received; more are lost.
const queued = 4096

// Card is a network card of a host, cabled to a port of a switch.
type Card struct {
	Latency time.Duration // from the other card to this one's Receive; set before frames come

	port   *Port
	frames chan arrival
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	drops   uint64
	changes uint32 // of the carrier
}

type arrival struct {
	frame []byte
	at    time.Time
}

// Cable adds a port to the switch, and a card that is cabled to it.
func (s *Switch) Cable(name string) *Card {
	c := &Card{frames: make(chan arrival, queued), closed: make(chan struct{})}
	c.port = s.AddPort(name, c.receive)
	return c
}

// receive queues a frame.
func (c *Card) receive(frame []byte) {
	select {
	case c.frames <- arrival{frame, time.Now().Add(c.Latency)}:
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.drops++
	}
}

// Port is the port at the other end of the cable.
func (c *Card) Port() *Port { return c.port }

// Send sends a frame: when it returns, the switch has dealt with it.
func (c *Card) Send(frame []byte) error {
	if !c.port.Up() {
		return syscall.ENETDOWN
	}
	c.port.Receive(frame)
	return nil
}

// Receive waits for the next frame, and returns when it arrived; after Close the error is
// [net.ErrClosed].
func (c *Card) Receive() ([]byte, time.Time, error) {
	select {
	case a := <-c.frames:
		time.Sleep(time.Until(a.at))
		return a.frame, a.at, nil
	case <-c.closed:
		return nil, time.Time{}, net.ErrClosed
	}
}

// Next is the next frame that was sent to the card, whatever the latency; nil where there is none.
func (c *Card) Next() []byte {
	select {
	case a := <-c.frames:
		return a.frame
	default:
		return nil
	}
}

// Drops is how many frames were lost since the last call, as they were not received.
func (c *Card) Drops() (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.drops
	c.drops = 0
	return n, nil
}

// Link takes the link down or up.
func (c *Card) Link(up bool) error {
	if c.port.SetLink(up) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changes++
	}
	return nil
}

// Carrier reports whether there is a carrier, and how often that changed.
func (c *Card) Carrier() (up bool, changes uint32, err error) {
	up = c.port.Up()
	c.mu.Lock()
	defer c.mu.Unlock()
	return up, c.changes, nil
}

// Close ends the receiving.
func (c *Card) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}
