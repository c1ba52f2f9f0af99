package sonicdb

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gomodule/redigo/redis"
)

// Subscription is the messages of a channel.
type Subscription struct {
	C <-chan []byte // closed when a connection is lost

	conns []*conn
	done  chan struct{}
	once  sync.Once
}

// Subscribe listens to a channel of the Redis servers that have these databases:
// a channel belongs to a server and not to one of its databases. It returns when
// the subscription holds.
func (c *Client) Subscribe(ctx context.Context, channel string, databases ...string) (*Subscription, error) {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	s, err := c.subscribe(ctx, channel, databases)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("the switch's Redis: subscribe to %s: %w", channel, err)
	}
	return s, nil
}

func (c *Client) subscribe(ctx context.Context, channel string, databases []string) (*Subscription, error) {
	layout, err := c.Layout(ctx)
	if err != nil {
		return nil, err
	}
	messages := make(chan []byte)
	s := &Subscription{C: messages, done: make(chan struct{})}
	at := map[string]bool{}
	for _, db := range databases {
		p, err := layout.find(db)
		if err != nil {
			s.Close()
			return nil, err
		}
		if at[p.instance] {
			continue
		}
		at[p.instance] = true
		cn, err := c.dial(ctx, layout.instances[p.instance])
		if err != nil {
			s.Close()
			return nil, err
		}
		s.conns = append(s.conns, cn)
		if err := holds(ctx, cn, channel); err != nil {
			s.Close()
			return nil, err
		}
	}
	var readers sync.WaitGroup
	for _, cn := range s.conns {
		readers.Go(func() {
			defer s.Close()
			s.read(cn, messages)
		})
	}
	go func() {
		readers.Wait()
		close(messages)
	}()
	return s, nil
}

// holds subscribes and waits for the answer.
func holds(ctx context.Context, cn *conn, channel string) error {
	stop := context.AfterFunc(ctx, func() { cn.Close() })
	defer stop()
	answer, err := cn.ask("SUBSCRIBE", channel)
	if err != nil {
		return err
	}
	if list, _ := answer.([]any); len(list) != 3 || !isText(list[0], "subscribe") {
		return errors.New("another answer than a subscription's")
	}
	cn.round = endless
	return nil
}

func isText(element any, text string) bool {
	b, ok := element.([]byte)
	return ok && string(b) == text
}

func (s *Subscription) read(cn *conn, to chan<- []byte) {
	for {
		answer, err := cn.receive()
		if _, refused := answer.(redis.Error); err != nil || refused {
			return
		}
		list, _ := answer.([]any)
		if len(list) != 3 || !isText(list[0], "message") {
			continue
		}
		message, _ := list[2].([]byte)
		select {
		case to <- message:
		case <-s.done:
			return
		}
	}
}

// Close ends the subscription. It may be called many times.
func (s *Subscription) Close() {
	s.once.Do(func() {
		close(s.done)
		for _, cn := range s.conns {
			cn.Close() // the reader has the rest of it
		}
	})
}
