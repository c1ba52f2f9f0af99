package sonictest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/csig-agent/csig/protocol/sonicmq"
)

// endpoint is orchagent's REP socket (ZMTP 3.1, as libzmq 4.3 has it), of its own, and not
// made of what csig reads and writes frames with. What it does not know is an error of the
// test.
type endpoint struct {
	s  *Switch
	ln net.Listener

	turn sync.Mutex // held from a message until its answer: REP has one at a time

	mu    sync.Mutex
	conns map[net.Conn]bool
	waits int // messages that were received and are not carried out
	ended bool
	cond  *sync.Cond // of the switch's hold and ready, and of ended
}

// Endpoint is the path of orchagent's ZeroMQ socket.
func (s *Switch) Endpoint() string { return filepath.Join(s.Redis.Dir, "p4orch") }

// serve binds the socket as libzmq does, which takes away one that was left.
func (s *Switch) serve() {
	_ = os.Remove(s.Endpoint())
	ln, err := net.Listen("unix", s.Endpoint())
	if err != nil {
		s.t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // it is killed, and leaves it
	e := &endpoint{s: s, ln: ln, conns: map[net.Conn]bool{}}
	e.cond = sync.NewCond(&e.mu)
	s.mu.Lock()
	s.mq = e
	s.mu.Unlock()
	s.wait.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			e.conns[c] = true
			ended := e.ended
			e.mu.Unlock()
			if ended {
				c.Close()
			}
			s.wait.Go(func() {
				if err := ServeREP(c, e.take); !Gone(err) {
					s.t.Errorf("orchagent's ZeroMQ socket: %v", err)
				}
				c.Close()
				e.mu.Lock()
				delete(e.conns, c)
				e.mu.Unlock()
			})
		}
	})
}

// hangUp ends the socket and all connections.
func (s *Switch) hangUp() {
	s.mu.Lock()
	e := s.mq
	s.mq = nil
	s.mu.Unlock()
	if e == nil {
		return
	}
	e.ln.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	for c := range e.conns {
		// serve ends when the other end has seen it, and has closed it, too.
		_ = c.(*net.UnixConn).CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	}
	e.cond.Broadcast()
}

// wake has what waits looked at again.
func (s *Switch) wake() {
	s.mu.Lock()
	e := s.mq
	s.mu.Unlock()
	if e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.cond.Broadcast()
	}
}

// Gone reports whether the other end, or this one, has ended a connection.
func Gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "connection reset") || strings.Contains(err.Error(), "broken pipe")
}

// ServeREP is a REP socket for one client until it is gone; the error says what of the client is none. take
// carries out a message and makes its answer; nil is none.
func ServeREP(c net.Conn, take func(body []byte) (answer []byte, err error)) error {
	in := bufio.NewReader(c)
	// The signature comes first, the rest when the other's version is known.
	if _, err := c.Write([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f}); err != nil {
		return err
	}
	var b [64]byte
	if _, err := io.ReadFull(in, b[:]); err != nil {
		return err
	}
	if b[0] != 0xff || b[9] != 0x7f || b[10] != 3 || b[11] > 1 || strings.TrimRight(string(b[12:32]), "\x00") != "NULL" || strings.Trim(string(b[32:]), "\x00") != "" {
		return fmt.Errorf("the greeting % x", b)
	}
	rest := make([]byte, 54)
	rest[0], rest[1] = 3, 1
	copy(rest[2:], "NULL")
	if _, err := c.Write(rest); err != nil {
		return err
	}
	if flags, body, err := frame(in); err != nil {
		return err
	} else if want := "\x05READY\x0bSocket-Type\x00\x00\x00\x03REQ\x08Identity\x00\x00\x00\x00"; flags != 4 || string(body) != want {
		return fmt.Errorf("flags %x, %q in place of REQ's READY", flags, body)
	}
	if _, err := c.Write([]byte("\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03REP")); err != nil {
		return err
	}
	for {
		flags, body, err := frame(in)
		if err != nil {
			return err
		}
		if flags != 1 || len(body) != 0 {
			return fmt.Errorf("a message that begins with the flags %x and %d bytes", flags, len(body))
		}
		if flags, body, err = frame(in); err != nil {
			return err
		}
		if flags != 0 {
			return fmt.Errorf("a message with the flags %x at its end", flags)
		}
		answer, err := take(body)
		if err != nil {
			return err
		}
		if answer == nil {
			continue
		}
		out := []byte{1, 0, 2}
		out = append(binary.BigEndian.AppendUint64(out, uint64(len(answer))), answer...)
		if _, err := c.Write(out); err != nil {
			return err
		}
	}
}

// frame reads one frame. A short one with a long length is none that libzmq sends, which it
// takes all the same.
func frame(in io.Reader) (flags byte, body []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(in, head[:2]); err != nil {
		return 0, nil, err
	}
	flags = head[0]
	size := uint64(head[1])
	if flags&2 != 0 {
		if _, err := io.ReadFull(in, head[1:]); err != nil {
			return 0, nil, err
		}
		if size = size<<56 | binary.BigEndian.Uint64(head[:])&(1<<56-1); size <= 255 || size > 16<<20 {
			return 0, nil, fmt.Errorf("a long frame of %d bytes", size)
		}
	}
	body = make([]byte, size)
	_, err = io.ReadFull(in, body)
	return flags &^ 2, body, err
}

// take carries out a message as P4Orch does, and makes its answer; nil is none.
func (e *endpoint) take(body []byte) ([]byte, error) {
	database, table, rows, err := sonicmq.Decode(body)
	if err != nil {
		return nil, fmt.Errorf("orchagent ends: %w", err)
	}
	if database != "APPL_DB" || table != "P4RT_TABLE" {
		return nil, fmt.Errorf("orchagent has no handler for %s %s, and never answers again", database, table)
	}
	e.count(1)
	defer e.count(-1)
	e.turn.Lock()
	defer e.turn.Unlock()
	if !e.looks() {
		return nil, net.ErrClosed
	}
	s := e.s
	s.batches.Lock()
	defer s.batches.Unlock()
	var answers []sonicmq.Row
	s.ordered(func(key string, words []string, status, why string) {
		r := sonicmq.Row{Key: key, Fields: [][2]string{{status, why}}}
		for i := 0; i < len(words); i += 2 {
			r.Fields = append(r.Fields, [2]string{words[i], words[i+1]})
		}
		answers = append(answers, r)
	}, rows)
	s.letGo()
	if len(answers) == 0 {
		return nil, nil
	}
	return sonicmq.Encode("APPL_DB", "P4RT_TABLE", answers)
}

func (e *endpoint) count(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waits += n
}

// Waiting is how many messages orchagent has received over ZeroMQ and not carried out.
func (s *Switch) Waiting() int {
	s.mu.Lock()
	e := s.mq
	s.mu.Unlock()
	if e == nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waits
}

// looks waits until orchagent looks at what it was sent; false where it ends.
func (e *endpoint) looks() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		e.s.mu.Lock()
		busy := e.s.hold || !e.s.ready
		e.s.mu.Unlock()
		if e.ended || !busy {
			return !e.ended
		}
		e.cond.Wait()
	}
}

// ordered carries out rows as P4Orch does since 202605 (orchagent/p4orch/p4orch.cpp, doTask):
// in their order, those of one manager and one operation together, until one fails. A row's
// manager is looked for before those in front of it are carried out.
func (s *Switch) ordered(to answerTo, rows []sonicmq.Row) {
	type task struct {
		key   string
		words []string
	}
	failed := false
	var group []task
	drain := func() (ok bool) {
		ok = true
		for _, t := range group {
			if !ok {
				s.publish(to, t.key, t.words, notExecuted, "")
				continue
			}
			ok = s.carryOut(to, t.key, t.words)
		}
		group = nil
		return ok
	}
	for _, r := range rows {
		t := task{key: r.Key}
		for _, f := range r.Fields {
			t.words = append(t.words, f[0], f[1])
		}
		switch {
		case !s.managed(t.key):
			failed = true
			s.publish(to, t.key, t.words, invalid, "Failed to find P4Orch Manager for key "+t.key)
			continue
		case failed:
			s.publish(to, t.key, t.words, notExecuted, "")
			continue
		}
		if len(group) > 0 && (len(group[0].words) == 0 != (len(t.words) == 0) || manager(group[0].key) != manager(t.key)) && !drain() {
			failed = true
			s.publish(to, t.key, t.words, notExecuted, "")
			continue
		}
		group = append(group, t)
	}
	drain()
}
