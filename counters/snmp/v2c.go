package snmp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"time"
)

// session speaks one version of SNMP to one agent over one socket.
type session interface {
	// prepare encodes a request, if this version can do so ahead of time.
	prepare(p *pdu) error
	// exchange sends the request once and waits for its answer.
	exchange(ctx context.Context, p *pdu, r *answer) error
	// interrupt makes a running exchange return at once. It may be called
	// from another goroutine.
	interrupt()
	close() error
}

// answer is a reply and when it was asked for and received.
type answer struct {
	reply
	sent, received time.Time
}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// v2c is a session of SNMPv2c (RFC 1901).
type v2c struct {
	cfg  *Config
	conn net.Conn
	buf  []byte
}

// dial returns a connected UDP socket: the kernel drops what other hosts send
// to it, and reports a port where nothing listens.
func dial(ctx context.Context, cfg *Config) (net.Conn, error) {
	conn, err := cfg.Dial(ctx, "udp", cfg.endpoint())
	if err != nil {
		return nil, fmt.Errorf("open a socket: %w", err)
	}
	return conn, nil
}

// randomID is a request-id that cannot be foreseen, so that only who has seen the
// request can answer it, and no late answer fits a newer request.
func randomID() int32 { return firstID + rand.Int32N(math.MaxInt32-firstID) }

func (c *v2c) prepare(p *pdu) error {
	// The space that a usual answer needs; exchange makes more where it is not
	// enough.
	space := min(512+40*max(len(p.wants), len(p.names)*max(1, p.repetitions)), maxDatagram)
	if len(c.buf) < space {
		c.buf = make([]byte, space)
	}
	return p.encode(c.cfg.Community)
}

func (c *v2c) exchange(ctx context.Context, p *pdu, a *answer) error {
	id := randomID()
	binary.BigEndian.PutUint32(p.msg[p.idAt:], uint32(id))
	if err := c.conn.SetReadDeadline(time.Now().Add(c.cfg.Timeout)); err != nil {
		return fmt.Errorf("set a deadline: %w", err)
	}
	// After the deadline: interrupt may have come before it.
	if err := ctx.Err(); err != nil {
		return err
	}
	a.sent = time.Now()
	_, err := c.conn.Write(p.msg)
	if errors.Is(err, syscall.ECONNREFUSED) {
		// It is the answer to an earlier request; the agent may be back.
		_, err = c.conn.Write(p.msg)
	}
	if err != nil {
		return socketError(ctx, "send", err)
	}
	var stray error
	for range maxStrays {
		n, err := c.conn.Read(c.buf)
		if err != nil {
			if err = socketError(ctx, "receive", err); stray != nil && errors.Is(err, ErrNoAnswer) {
				return fmt.Errorf("%w: what arrived was no SNMP answer (%w)", err, stray)
			}
			return err
		}
		a.received = time.Now()
		mine, err := a.parse(c.buf[:n], id, c.cfg.Community)
		if mine && err != nil && n == len(c.buf) && n < maxDatagram {
			c.buf = make([]byte, min(2*n, maxDatagram))
			return fmt.Errorf("%w: longer than %d bytes", ErrMalformed, n-1)
		}
		if mine {
			return err
		}
		stray = err
	}
	return fmt.Errorf("%w: none of %d datagrams was an SNMP answer (%w)", ErrNoAnswer, maxStrays, stray)
}

// socketError distinguishes a cancelled exchange, silence and other failures.
func socketError(ctx context.Context, what string, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrNoAnswer
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %w", ErrNoAnswer, syscall.ECONNREFUSED)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (c *v2c) interrupt() { _ = c.conn.SetReadDeadline(past) }

func (c *v2c) close() error { return c.conn.Close() }
