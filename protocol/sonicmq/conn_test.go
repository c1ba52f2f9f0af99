package sonicmq

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// What a REP socket of libzmq 4.3.4 sends when csig connects, as it was recorded.
var libzmq, _ = hex.DecodeString("ff00000000000000017f03014e554c4c" + strings.Repeat("00", 48) + "04190552454144590b536f636b65742d5479706500000003524550")

// peer is the other end of a connection: it takes everything, and sends this.
func peer(t *testing.T, send []byte) net.Conn {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	need := int64(len(greeting()))
	if len(send) >= greetingSize {
		need += int64(len(appendFrame(nil, command, ready("REQ"))))
	}
	taken := make(chan struct{})
	go func() {
		_, _ = io.CopyN(io.Discard, there, need)
		close(taken)
		_, _ = io.Copy(io.Discard, there)
	}()
	go func() {
		_, _ = there.Write(send)
		<-taken // or csig does not come to read it
		if !bytes.HasSuffix(send, open) {
			there.Close()
		}
	}()
	return here
}

// open at the end of what a peer sends leaves the connection open.
var open = []byte("…")

func TestConn(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, MaxBody} {
		want := bytes.Repeat([]byte{'x'}, n)
		c, err := Open(t.Context(), peer(t, append(bytes.Clone(libzmq), envelope(want)...)))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := <-c.C; !ok || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %d, %v, %v", n, len(got), ok, c.Err())
		}
		if _, ok := <-c.C; ok || !errors.Is(c.Err(), io.EOF) {
			t.Errorf("%v at the end", c.Err())
		}
		c.Close()
	}
}

// TestSend: the bytes that go out are the greeting, READY and an envelope.
func TestSend(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	go func() { _, _ = there.Write(libzmq) }()
	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(there)
		got <- b
	}()
	c, err := Open(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 256)
	for _, text := range []string{"short", long} {
		if err := c.Send(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	want := "\xff" + strings.Repeat("\x00", 8) + "\x7f\x03\x00NULL" + strings.Repeat("\x00", 48) +
		"\x04\x26\x05READY\x0bSocket-Type\x00\x00\x00\x03REQ\x08Identity\x00\x00\x00\x00" +
		"\x01\x00\x00\x05short" + "\x01\x00\x02\x00\x00\x00\x00\x00\x00\x01\x00" + long
	if b := <-got; string(b) != want {
		t.Errorf("%q", b)
	}
	if err := c.Send(t.Context(), []byte("x")); err == nil {
		t.Error("a closed connection takes a message")
	}
}

// TestHandshake: another peer than orchagent's socket is refused by name, in time.
func TestHandshake(t *testing.T) {
	with := func(at int, b ...byte) []byte {
		return append(append(bytes.Clone(libzmq[:at]), b...), libzmq[at+len(b):]...)
	}
	command := func(body string) []byte {
		return append(append(bytes.Clone(libzmq[:64]), 4, byte(len(body))), body...)
	}
	for name, test := range map[string]struct {
		send []byte
		want string
	}{
		"HTTP":                 {[]byte("HTTP/1.1 400 Bad Request\r\n" + strings.Repeat("x", 64)), "greeting"},
		"Redis":                {append([]byte("-ERR unknown command"), open...), "says nothing"},
		"it ends":              {libzmq[:40], "unexpected EOF"},
		"it ends before READY": {libzmq[:70], "unexpected EOF"},
		"ZMTP 2":               {with(10, 1), "ZMTP 1"},
		"CURVE":                {with(12, []byte("CURVE")...), `"CURVE"`},
		"a PULL socket":        {command("\x05READY\x0bSocket-Type\x00\x00\x00\x04PULL"), `"PULL" socket`},
		"no type":              {command("\x05READY"), `"" socket`},
		"ERROR":                {command("\x05ERROR\x07not you"), "not you"},
		"half a property":      {command("\x05READY\x0bSocket-Type\x00\x00\x00\xffREP"), "READY cannot"},
		"no command":           {command("\x7fREADY"), "READY cannot"},
		"a message":            {append(bytes.Clone(libzmq[:64]), 0, 1, 'x'), "before READY"},
		"a READY too long":     {append(bytes.Clone(libzmq[:64]), 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), "frame of 18446744073709551615 bytes"},
		"silence":              {open, "says nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := time.Minute
			if test.want == "says nothing" {
				timeout = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, errors.New("it says nothing"))
			defer cancel()
			if c, err := Open(ctx, peer(t, test.send)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, %v; want %q", c, err, test.want)
			}
		})
	}
}

// TestHostileFrames: a peer that sends what is no message ends the connection, and
// nothing is allocated for what it announces.
func TestHostileFrames(t *testing.T) {
	for name, test := range map[string]struct {
		send string
		want error
	}{
		"no empty frame":             {"\x00\x01x", ErrProtocol},
		"an empty frame that is not": {"\x01\x01x", untrusted.ErrTooLong},
		"a message of one frame":     {"\x00\x00", ErrProtocol},
		"three frames":               {"\x01\x00\x01\x01x\x00\x01x", ErrProtocol},
		"frames without an end":      {strings.Repeat("\x01\x00", 1<<16), ErrProtocol},
		"a command":                  {"\x04\x05\x04PING", untrusted.ErrTooLong},
		"an unknown flag":            {"\x01\x00\x80\x01x", ErrProtocol},
		"a command with more":        {"\x01\x00\x05\x01x", ErrProtocol},
		"one byte too many":          {"\x01\x00\x02\x00\x00\x00\x00\x00\x10\x00\x01", untrusted.ErrTooLong},
		"2^63 bytes":                 {"\x01\x00\x02\x80\x00\x00\x00\x00\x00\x00\x00", untrusted.ErrTooLong},
		"2^64-1 bytes":               {"\x01\x00\x02\xff\xff\xff\xff\xff\xff\xff\xff", untrusted.ErrTooLong},
		"half a length":              {"\x01\x00\x02\x00\x00", io.ErrUnexpectedEOF},
		"half an answer":             {"\x01\x00\x00\x05ab", io.ErrUnexpectedEOF},
		"an envelope alone":          {"\x01\x00", io.ErrUnexpectedEOF},
	} {
		c, err := Open(t.Context(), peer(t, append(bytes.Clone(libzmq), test.send...)))
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := <-c.C; ok || !errors.Is(c.Err(), test.want) {
			t.Errorf("%s: %q, %v; want %v", name, b, c.Err(), test.want)
		}
	}
}

// TestUnread: messages that are not read hold nothing up; Close ends the reader.
func TestUnread(t *testing.T) {
	c, err := Open(t.Context(), peer(t, append(bytes.Clone(libzmq), bytes.Repeat(envelope([]byte("x")), 1<<12)...)))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	for range c.C { //nolint:revive // until it is closed
	}
}

// TestSendNowhere: a peer that reads nothing is an error when the time is over.
func TestSendNowhere(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	go func() {
		_, _ = io.CopyN(io.Discard, there, 64+40)
	}()
	go func() { _, _ = there.Write(libzmq) }()
	c, err := Open(t.Context(), here)
	if err != nil {
		t.Fatal(err)
	}
	late := errors.New("late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, late)
	defer cancel()
	if err := c.Send(ctx, make([]byte, MaxBody)); !errors.Is(err, late) {
		t.Errorf("%v", err)
	}
	<-c.C
}
