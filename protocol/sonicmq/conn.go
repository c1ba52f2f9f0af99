package sonicmq

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// Conn is a REQ socket with one connection: after a Send comes one message on C, and
// then the next Send. It has no deadlines, which connections through SSH do not have:
// it is closed instead.
type Conn struct {
	C <-chan []byte // the bodies of the answers; closed when the connection is lost

	conn net.Conn
	done chan struct{}
	once sync.Once
	err  error // why C is closed; read after that
}

// maxCommand is the most bytes of a command of the handshake.
const maxCommand = 1 << 10

// Open begins a ZMTP connection on conn, which it closes after an error. Another socket
// than REP at the other end is ErrProtocol.
func Open(ctx context.Context, conn net.Conn) (*Conn, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	in := bufio.NewReader(conn)
	err := handshake(conn, in)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	messages := make(chan []byte)
	c := &Conn{C: messages, conn: conn, done: make(chan struct{})}
	go c.read(in, messages)
	return c, nil
}

func handshake(out io.Writer, in io.Reader) error {
	if _, err := out.Write(greeting()); err != nil {
		return err
	}
	var b [greetingSize]byte
	if _, err := io.ReadFull(in, b[:]); err != nil {
		return fmt.Errorf("ZMTP's greeting: %w", noEOF(err))
	}
	if err := checkGreeting(b[:]); err != nil {
		return err
	}
	if _, err := out.Write(appendFrame(nil, command, ready("REQ"))); err != nil {
		return err
	}
	flags, body, err := readFrame(in, maxCommand)
	if err != nil {
		return fmt.Errorf("ZMTP's READY: %w", noEOF(err))
	}
	if flags&command == 0 {
		return fmt.Errorf("%w: a message before READY", ErrProtocol)
	}
	socketType, err := parseReady(body)
	if err == nil && socketType != "REP" {
		err = fmt.Errorf("%w: it is a %q socket, and orchagent's are REP", ErrProtocol, untrusted.Text(socketType, 16))
	}
	return err
}

// Send sends a message. After an error the connection is closed.
func (c *Conn) Send(ctx context.Context, body []byte) error {
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	_, err := c.conn.Write(envelope(body))
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.Close()
	}
	return err
}

// envelope is a message of a REQ or REP socket: an empty frame, and the body (spec/28).
func envelope(body []byte) []byte {
	return appendFrame([]byte{more, 0}, 0, body)
}

func (c *Conn) read(in io.Reader, to chan<- []byte) {
	defer close(to)
	defer c.Close()
	for {
		body, err := readMessage(in)
		if err != nil {
			c.err = err
			return
		}
		select {
		case to <- body:
		case <-c.done:
			return
		}
	}
}

// readMessage reads an envelope. There are no commands behind the handshake: heartbeats are
// ZMTP 3.1's, and orchagent asks for none.
func readMessage(in io.Reader) ([]byte, error) {
	flags, _, err := readFrame(in, 0)
	if err != nil {
		return nil, err
	}
	if flags != more {
		return nil, fmt.Errorf("%w: a message without the empty frame at its beginning", ErrProtocol)
	}
	flags, body, err := readFrame(in, MaxBody)
	if err != nil {
		return nil, noEOF(err)
	}
	if flags&^long != 0 {
		return nil, fmt.Errorf("%w: a message of several frames", ErrProtocol)
	}
	return body, nil
}

// Err is why C was closed, for as far as the other end is the reason. It is called after
// that.
func (c *Conn) Err() error { return c.err }

// Closed reports whether this end has closed the connection: C is closed in a moment, too.
func (c *Conn) Closed() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Close ends the connection. It may be called many times, and from several goroutines.
func (c *Conn) Close() {
	c.once.Do(func() {
		close(c.done)
		_ = c.conn.Close() // the reader has the rest of it
	})
}
