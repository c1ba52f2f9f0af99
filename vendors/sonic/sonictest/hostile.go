package sonictest

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Hostility is one way in which a Redis does not do what it should.
type Hostility struct {
	Name string

	// Slow is so of one that a client has to give up on by itself.
	Slow bool

	// answer writes what comes in place of the answer to a command; an error ends the
	// connection. A nil one leaves it to the real Redis behind, where there is one.
	answer func(h *Hostile, to io.Writer, command []string) error
}

// Hostilities are all ways: lengths that do not fit memory, replies without an end,
// silence, and ends in the middle of a reply.
func Hostilities() []Hostility {
	says := func(name, text string) Hostility {
		return Hostility{Name: name, answer: func(_ *Hostile, to io.Writer, _ []string) error {
			_, err := io.WriteString(to, text)
			return err
		}}
	}
	forever := func(name, first, text string) Hostility {
		return Hostility{Name: name, answer: func(_ *Hostile, to io.Writer, _ []string) error {
			_, err := io.WriteString(to, first)
			for chunk := strings.Repeat(text, 1+(32<<10)/len(text)); err == nil; {
				_, err = io.WriteString(to, chunk)
			}
			return err
		}}
	}
	slow := func(h Hostility) Hostility {
		h.Slow = true
		return h
	}
	list := []Hostility{
		says("value of 2^63-1 bytes", "$9223372036854775807\r\n"),
		says("value of half a gigabyte", "$536870912\r\n"),
		says("length below zero", "$-9\r\n"),
		says("length that overflows", "$18446744073709551615\r\n*18446744073709551617\r\n"),
		says("array of 2^63-1", "*9223372036854775807\r\n"),
		says("array of 10^8", "*100000000\r\n"),
		forever("arrays in arrays", "", "*1\r\n"),
		forever("wide arrays in arrays", "", "*65536\r\n"),
		forever("status without an end", "+", "a"),
		forever("error without an end", "-ERR ", "a"),
		forever("length without an end", "$", "0"),
		forever("replies without an end", "", ":1\r\n"),
		forever("values without an end", "*65536\r\n", "$1000\r\n"+strings.Repeat("a", 1000)+"\r\n"),
		forever("empty arrays without an end", "*65536\r\n", "*0\r\n"),
		says("text that is not to be printed", "-ERR \x1b[2J\x1b]0;title\a \xe2\x80\xae\tend\r\n"),
		says("no Redis", "SSH-2.0-OpenSSH_9.2\r\n"),
		says("lines that end early", "$3\nabc\n"),
		says("numbers", ":7\r\n"),
		says("nothing", "$-1\r\n"),
		says("an odd array", "*3\r\n$1\r\na\r\n:1\r\n*0\r\n"),
		slow(Hostility{Name: "silence", answer: func(h *Hostile, _ io.Writer, _ []string) error {
			<-h.stopped
			return net.ErrClosed
		}}),
		slow(Hostility{Name: "drip", answer: func(h *Hostile, to io.Writer, _ []string) error {
			_, err := io.WriteString(to, "*60000\r\n")
			for err == nil {
				select {
				case <-h.stopped:
					return net.ErrClosed
				case <-time.After(time.Millisecond):
					_, err = io.WriteString(to, ":1\r\n")
				}
			}
			return err
		}}),
		{Name: "end before a reply", answer: func(*Hostile, io.Writer, []string) error { return io.EOF }},
		{Name: "end in a reply", answer: func(_ *Hostile, to io.Writer, _ []string) error {
			_, _ = io.WriteString(to, "*4\r\n$4\r\nabcd\r\n$400\r\nab")
			return io.EOF
		}},
		{Name: "scan without an end", Slow: true, answer: func(_ *Hostile, to io.Writer, command []string) error {
			reply := "*0\r\n"
			if strings.EqualFold(command[0], "SCAN") {
				prefix := strings.TrimSuffix(command[3], "*")
				reply = "*2\r\n$1\r\n7\r\n*1000\r\n"
				for i := range 10 { // no fewer for being the same again
					key := fmt.Sprintf("%sEthernet%d", prefix, i)
					reply += strings.Repeat(fmt.Sprintf("$%d\r\n%s\r\n", len(key), key), 100)
				}
			}
			_, err := io.WriteString(to, reply)
			return err
		}},
	}
	return list
}

// Flood sends messages without an end to who subscribes, and leaves other commands to
// the real Redis.
func Flood() Hostility {
	return Hostility{Name: "messages without an end", answer: func(h *Hostile, to io.Writer, command []string) error {
		if !strings.EqualFold(command[0], "SUBSCRIBE") {
			return h.forward(to, command)
		}
		channel := command[1]
		_, err := fmt.Fprintf(to, "*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(channel), channel)
		message := fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n$4\r\nnone\r\n", len(channel), channel)
		for chunk := strings.Repeat(message, 256); err == nil; {
			_, err = io.WriteString(to, chunk)
		}
		return err
	}}
}

// Hostile is a server at a unix socket that speaks as much of Redis' protocol as it
// takes to do harm.
type Hostile struct {
	Hostility
	Socket string
	File   string // database_config.json

	// After is how many commands but those that begin a connection are carried out by
	// the real Redis, over all connections, before the harm begins.
	After int

	real    *Redis
	stopped chan struct{}
	wait    sync.WaitGroup

	mu    sync.Mutex
	seen  int
	conns map[net.Conn]bool
}

// StartHostile runs a hostile Redis until the test ends. What it leaves alone is
// carried out by real, which may be nil.
func StartHostile(t testing.TB, how Hostility, real *Redis, after int) *Hostile {
	t.Helper()
	dir := shortDir(t)
	files := &Redis{Dir: dir, Socket: filepath.Join(dir, "redis.sock"), File: filepath.Join(dir, "database_config.json"), t: t}
	files.writeConfig()
	ln, err := net.Listen("unix", files.Socket)
	if err != nil {
		t.Fatal(err)
	}
	h := &Hostile{Hostility: how, Socket: files.Socket, File: files.File, After: after, real: real, stopped: make(chan struct{}), conns: map[net.Conn]bool{}}
	h.wait.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			h.mu.Lock()
			h.conns[c] = true
			h.mu.Unlock()
			h.wait.Go(func() { h.serve(c) })
		}
	})
	t.Cleanup(func() {
		close(h.stopped)
		_ = ln.Close()
		h.mu.Lock()
		for c := range h.conns {
			_ = c.Close()
		}
		h.mu.Unlock()
		h.wait.Wait()
	})
	return h
}

// harm counts a command, and reports whether it is to be answered by harm.
func (h *Hostile) harm() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen++
	return h.seen > h.After
}

func (h *Hostile) serve(c net.Conn) {
	defer c.Close()
	commands := redis.NewConn(c, 0, 0) // a command is an array, as some replies are
	var real redis.Conn
	if h.real != nil {
		var err error
		if real, err = redis.Dial("unix", h.real.Socket); err != nil {
			return
		}
		defer real.Close()
	}
	for {
		command, err := redis.Strings(commands.Receive())
		if err != nil || len(command) == 0 {
			return
		}
		to := io.Writer(c)
		if real != nil {
			to = both{c, commands, real}
		}
		switch name := strings.ToUpper(command[0]); {
		case name == "AUTH" || name == "CLIENT" && strings.EqualFold(command[1], "SETNAME"):
			_, err = io.WriteString(c, "+OK\r\n")
		case name == "SELECT":
			if real != nil {
				_, err = real.Do("SELECT", command[1])
			}
			if err == nil {
				_, err = io.WriteString(c, "+OK\r\n")
			}
		case !h.harm():
			err = h.forward(to, command)
		default:
			err = h.answer(h, to, command)
		}
		if err != nil {
			return
		}
	}
}

// both is a client, and the real Redis for it.
type both struct {
	io.Writer
	client redis.Conn // that its commands are read from
	real   redis.Conn
}

// forward has the real Redis carry a command out.
func (h *Hostile) forward(to io.Writer, command []string) error {
	b, ok := to.(both)
	if !ok {
		return io.EOF
	}
	args := make([]any, 0, len(command))
	for _, w := range command[1:] {
		args = append(args, w)
	}
	if strings.EqualFold(command[0], "SUBSCRIBE") {
		// Its messages come at any time: from here on the two talk to each other.
		ps := redis.PubSubConn{Conn: b.real}
		if err := ps.Subscribe(args...); err != nil {
			return err
		}
		h.wait.Go(func() { // until the client ends
			for err := error(nil); err == nil; {
				_, err = b.client.Receive()
			}
			_ = b.real.Close()
		})
		for {
			reply, err := b.real.Receive()
			if err == nil {
				_, err = b.Write(encode(nil, reply))
			}
			if err != nil {
				return err
			}
		}
	}
	reply, err := b.real.Do(command[0], args...)
	if e, refused := err.(redis.Error); refused { //nolint:errorlint // redigo wraps none
		reply, err = e, nil
	}
	if err == nil {
		_, err = b.Write(encode(nil, reply))
	}
	return err
}

func encode(out []byte, reply any) []byte {
	switch v := reply.(type) {
	case nil:
		return append(out, "$-1\r\n"...)
	case int64:
		return fmt.Appendf(out, ":%d\r\n", v)
	case string:
		return fmt.Appendf(out, "+%s\r\n", v)
	case redis.Error:
		return fmt.Appendf(out, "-%s\r\n", string(v))
	case []byte:
		out = fmt.Appendf(out, "$%d\r\n", len(v))
		return append(append(out, v...), "\r\n"...)
	case []any:
		out = fmt.Appendf(out, "*%d\r\n", len(v))
		for _, e := range v {
			out = encode(out, e)
		}
		return out
	default:
		panic(fmt.Sprintf("sonictest: a reply of %T", reply))
	}
}
