package sshtest

import (
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// Hostilities are the ways in which a hostile switch breaks SSH: some before the
// login is done, the others (LogsIn) after it.
var Hostilities = []string{
	"closes", "silent", "floods version", "floods banners", "asks without end", // before
	"no channel", "silent channel", "closes channel", "floods output", "floods errors", "no status", "escapes", "drips", // after
}

// LogsIn reports whether a hostile switch completes a login.
func LogsIn(how string) bool {
	return slices.Index(Hostilities, how) >= slices.Index(Hostilities, "no channel")
}

// Hostile is an SSH server of 127.0.0.1 that breaks SSH in one of the Hostilities.
// Its login has a password where a key would not be asked for.
func Hostile(t testing.TB, how string) *Server {
	t.Helper()
	return hostile(t, how, Listen)
}

// HostileInMemory is Hostile without a socket: clients connect by its Dial.
func HostileInMemory(t testing.TB, how string) *Server {
	t.Helper()
	return hostile(t, how, InMemory)
}

func hostile(t testing.TB, how string, listen func(testing.TB, *ssh.ServerConfig, func(net.Conn)) *Listener) *Server {
	t.Helper()
	if !slices.Contains(Hostilities, how) {
		t.Fatalf("no hostility %q", how)
	}
	cfg := &ssh.ServerConfig{PasswordCallback: func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return nil, nil }}
	switch how {
	case "floods banners":
		cfg.PreAuthConnCallback = func(c ssh.ServerPreAuthConn) {
			for c.SendAuthBanner(strings.Repeat("banner\n", 1<<12)) == nil {
			}
		}
	case "asks without end":
		cfg.PasswordCallback = nil
		cfg.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			for {
				if _, err := ask("", strings.Repeat("again ", 1<<10), nil, nil); err != nil {
					return nil, err
				}
			}
		}
	}
	l := listen(t, cfg, func(conn net.Conn) { serveHostile(conn, cfg, how) })
	return &Server{Address: l.Address, Dir: l.Dir, Login: l.Login, Dial: l.Dial}
}

func serveHostile(conn net.Conn, cfg *ssh.ServerConfig, how string) {
	switch how {
	case "closes":
		return
	case "silent":
		_, _ = io.Copy(io.Discard, conn)
		return
	case "floods version":
		flood(conn, "no version here\n")
		return
	}
	_, channels, requests, err := ssh.NewServerConn(conn, cfg)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	var all sync.WaitGroup
	defer all.Wait()
	for open := range channels {
		if how == "no channel" {
			continue // no answer to it, ever
		}
		ch, asked, err := open.Accept()
		if err != nil {
			return
		}
		all.Go(func() {
			if open.ChannelType() != "session" {
				misbehave(ch, how)
				return
			}
			for r := range asked {
				_ = r.Reply(true, nil)
				if r.Type == "exec" {
					all.Go(func() { misbehave(ch, how) })
				}
			}
		})
	}
}

func misbehave(ch ssh.Channel, how string) {
	switch how {
	case "closes channel":
		_ = ch.Close()
	case "floods output":
		flood(ch, "\x1b[2Jx")
	case "floods errors":
		flood(ch.Stderr(), "\x1b[2Jx")
	case "no status":
		_, _ = io.WriteString(ch, "half an answer")
		_ = ch.CloseWrite()
		_ = ch.Close()
	case "escapes":
		_, _ = io.WriteString(ch.Stderr(), "\x1b]0;owned\x07\n\x1b[2Jroot@switch:~# ")
		_, _ = ch.SendRequest("exit-status", false, []byte{0, 0, 0, 1})
		_ = ch.Close()
	case "drips":
		for err := error(nil); err == nil; time.Sleep(10 * time.Millisecond) {
			_, err = io.WriteString(ch, "x")
		}
	}
}

func flood(w io.Writer, text string) {
	chunk := []byte(strings.Repeat(text, (32<<10)/len(text)))
	for {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}
