package kvtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csig-agent/csig/controller/owner/kv"
)

// subscription is a reader of messages.
type subscription struct {
	by      *Conn
	subject []string // its tokens
	queue   *queue[kv.Message]
}

func (s *subscription) reads(subject string) bool {
	tokens := strings.Split(subject, ".")
	for i, t := range s.subject {
		if i >= len(tokens) || t != "*" && t != tokens[i] {
			return false
		}
	}
	return len(tokens) == len(s.subject)
}

// Inbox implements kv.Store.
func (c *Conn) Inbox() string {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.inboxes++
	return fmt.Sprintf("_INBOX.%d", c.of.inboxes)
}

// Subscribe implements kv.Store.
func (c *Conn) Subscribe(subject string, f func(kv.Message)) (stop func() error, err error) {
	s := &subscription{by: c, subject: strings.Split(subject, "."), queue: newQueue[kv.Message]()}
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	c.of.mu.Lock()
	c.of.subs = append(c.of.subs, s)
	c.of.mu.Unlock()
	go func() {
		for range s.queue.more {
			for _, m := range s.queue.take() {
				f(m)
			}
		}
	}()
	return func() error {
		c.of.mu.Lock()
		c.of.subs = slices.DeleteFunc(c.of.subs, func(o *subscription) bool { return o == s })
		c.of.mu.Unlock()
		s.queue.end()
		return nil
	}, nil
}

// Flush implements kv.Store.
func (c *Conn) Flush(limit time.Duration) error {
	ctx, done := context.WithTimeout(context.Background(), limit)
	defer done()
	return c.request(ctx, false, func() error { return nil })
}

// Publish implements kv.Store. What is published while the connection is cut is lost.
func (c *Conn) Publish(m kv.Message) error {
	_, err := c.send(m)
	return err
}

// send returns how many read a message.
func (c *Conn) send(m kv.Message) (readers int, err error) {
	c.mu.Lock()
	closed, cut := c.closed, c.restored != nil
	c.mu.Unlock()
	if closed {
		return 0, ErrClosed
	}
	if cut {
		return 1, nil // perhaps
	}
	m.Data = slices.Clone(m.Data)
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	for _, s := range c.of.subs {
		if s.reads(m.Subject) {
			readers++
			s.queue.put(m)
		}
	}
	return readers, nil
}

// Request implements kv.Store.
func (c *Conn) Request(ctx context.Context, subject string, data []byte) (kv.Message, error) {
	answer := make(chan kv.Message, 1)
	m := kv.Message{Subject: subject, Data: data, Reply: c.Inbox()}
	stop, err := c.Subscribe(m.Reply, func(m kv.Message) {
		select {
		case answer <- m:
		default:
		}
	})
	if err != nil {
		return kv.Message{}, err
	}
	defer func() { _ = stop() }()
	if n, err := c.send(m); err != nil || n == 0 {
		if err == nil {
			err = kv.ErrNoReader
		}
		return kv.Message{}, err
	}
	select {
	case m := <-answer:
		return m, nil
	case <-ctx.Done():
		return kv.Message{}, ctx.Err()
	}
}
