package ssh

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// relay is what lets an account that is root by sudo connect to sockets that only
// root may open: sshd connects as the account, and a connection needs both
// directions at once, which root's shell does not have. It is a small program of
// root's that listens at a socket which only the account can open, asks whoever
// connects for a word that only this login knows, and passes on what comes.
//
// The first connection holds it: when that ends, with the login or because the
// cable is cut, so does the relay, and what it made is gone. Nobody who holds it
// within 10 s is as good as one who has left.
type relay struct {
	socket string
	word   string
	hold   net.Conn
}

// relayProgram takes the word from standard input, where no list of processes
// shows it, and prints where it listens. python3 is on every SONiC
// (sonic-net/sonic-buildimage build_debian.sh), and wherever Open vSwitch's own
// tools are.
const relayProgram = `exec python3 -I -S -c '
import os, shutil, signal, socket, sys, tempfile, threading
word = sys.stdin.readline().strip()
d = tempfile.mkdtemp(prefix="csig")
path = d + "/s"
uid = int(os.environ["SUDO_UID"])
try:
    s = socket.socket(socket.AF_UNIX)
    os.umask(0o177)
    s.bind(path)
    os.chown(path, uid, -1)
    os.chown(d, uid, -1)
    s.listen(64)
except BaseException:
    shutil.rmtree(d)
    raise
print(path, flush=True)
if os.fork():
    os._exit(0)
null = os.open("/dev/null", os.O_RDWR)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
for fd in 0, 1, 2:
    os.dup2(null, fd)
def end():
    shutil.rmtree(d, True)
    os._exit(0)
def pump(a, b):
    try:
        while True:
            x = a.recv(65536)
            if not x:
                break
            b.sendall(x)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        for c in a, b:
            try:
                c.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
def line(c):
    c.settimeout(10)
    x = b""
    while not x.endswith(b"\n") and len(x) < 4096:
        y = c.recv(1)
        if not y:
            break
        x += y
    c.settimeout(None)
    return x.decode().rstrip("\n")
held = threading.Event()
threading.Thread(target=lambda: held.wait(10) or end(), daemon=True).start()
def serve(c):
    t = socket.socket(socket.AF_UNIX)
    try:
        w, _, to = line(c).partition(" ")
        if w != word:
            return
        if not to:
            held.set()
            c.sendall(b"\n")
            try:
                c.recv(1)
            except OSError:
                pass
            end()
        try:
            t.connect(to)
        except OSError as e:
            c.sendall((e.strerror or "no connection").encode() + b"\n")
            return
        c.sendall(b"\n")
        back = threading.Thread(target=pump, args=(t, c), daemon=True)
        back.start()
        pump(c, t)
        back.join()
    except (OSError, UnicodeDecodeError):
        pass
    finally:
        t.close()
        c.close()
while True:
    c, _ = s.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
    del c
'`

// startRelay starts it, and holds it.
func (r *Root) startRelay(ctx context.Context) (*relay, error) {
	word := newWord()
	out, err := r.Run(ctx, relayProgram, []byte(word+"\n"))
	if err != nil {
		var exit *ExitError
		switch {
		case errors.As(err, &exit) && (exit.Status == 126 || exit.Status == 127): // of the shell: there is none
			return nil, fmt.Errorf("ssh to %s: to pass connections on to root's sockets csig needs python3 there; or permit the account to open them itself, and leave sudo out of the fleet file (%s)", r.client.host, strings.TrimSpace(exit.Stderr))
		case exit != nil:
			return nil, fmt.Errorf("ssh to %s: what passes connections on to root's sockets does not start: %s", r.client.host, strings.TrimSpace(exit.Stderr))
		}
		return nil, err
	}
	l := &relay{socket: strings.TrimSpace(string(out)), word: word}
	l.hold, err = r.through(ctx, l, "")
	return l, err
}

// through connects to a socket by the relay; to itself where path is "".
func (r *Root) through(ctx context.Context, l *relay, path string) (net.Conn, error) {
	conn, err := r.client.DialUnix(ctx, l.socket)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	line := l.word
	if path != "" {
		line += " " + path
	}
	answer := ""
	in := bufio.NewReaderSize(conn, 256)
	if _, err = fmt.Fprintf(conn, "%s\n", line); err == nil {
		answer, err = in.ReadString('\n')
	}
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil && answer != "\n":
		err = &refusedError{strings.TrimSpace(answer)}
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("ssh to %s: unix socket %s, as root: %w", r.client.host, path, err)
	}
	return &relayed{conn, in}, nil
}

// refusedError is why root could not connect over there; the login is as good as
// before.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }

// relayed is a connection of which something may have been read already.
type relayed struct {
	net.Conn
	in *bufio.Reader
}

func (c *relayed) Read(p []byte) (int, error) { return c.in.Read(p) }

// DialUnix connects to a unix socket of the far side as root. Deadlines are not
// supported, as with Client.DialUnix; ctx is for connecting only.
func (r *Root) DialUnix(ctx context.Context, path string) (net.Conn, error) {
	if strings.ContainsAny(path, "\n\x00") {
		return nil, fmt.Errorf("%q is no path of a socket", path)
	}
	r.relays.Lock()
	defer r.relays.Unlock()
	if r.relay == nil {
		limited, cancel := context.WithTimeoutCause(ctx, relayPatience, fmt.Errorf("no answer for %v", relayPatience))
		defer cancel()
		l, err := r.startRelay(limited)
		if err != nil {
			return nil, err
		}
		r.relay = l
	}
	return r.through(ctx, r.relay, path)
}

// relayPatience is how long the relay may take to start: a switch's CPU is slow,
// and python3 is not small.
const relayPatience = 10 * time.Second

// DialTCP connects from the far side to a TCP address, for which nobody has to be
// root.
func (r *Root) DialTCP(ctx context.Context, address string) (net.Conn, error) {
	return r.client.DialTCP(ctx, address)
}
