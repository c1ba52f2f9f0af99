package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// relayProgram connects root's standard input and output to a unix socket: sshd
// itself connects as the account. It writes an empty line when it is connected,
// and ends with its input, which ends with the login or the cable. python3 is on
// every SONiC (sonic-net/sonic-buildimage build_debian.sh), and wherever Open
// vSwitch's own tools are.
const relayProgram = `
import os, socket, sys, threading
s = socket.socket(socket.AF_UNIX)
def send():
    while True:
        b = os.read(0, 65536)
        if not b:
            os._exit(0)
        s.sendall(b)
threading.Thread(target=send, daemon=True).start()
try:
    s.connect(sys.argv[1])
except OSError as e:
    os.write(2, (e.strerror or "no connection").encode())
    os._exit(1)
b = b"\n"
while b:
    while b:
        b = b[os.write(1, b):]
    b = s.recv(65536)
os._exit(0)
`

// dialUnix is Client.DialUnix as root, through python3 on the switch.
func (r *root) dialUnix(ctx context.Context, path string) (net.Conn, error) {
	if strings.ContainsAny(path, "\n\x00") {
		return nil, fmt.Errorf("%q is no path of a socket", path)
	}
	if ctx.Err() != nil {
		return nil, failed(ctx, r.client.host, ctx.Err())
	}
	ctx, done := r.client.within(ctx, r.timeout+DefaultTimeout) // a switch's CPU is slow, and python3 is not small
	defer done()
	conn, err := await(ctx, func() (net.Conn, error) {
		p, err := r.start(ctx, "exec python3 -I -S -c "+untrusted.ShellWord(relayProgram)+" "+untrusted.ShellWord(path))
		if err != nil {
			return nil, err
		}
		var line [1]byte
		if _, err := io.ReadFull(p.out, line[:]); err != nil {
			return nil, relayError(p)
		}
		if line[0] != '\n' {
			_ = p.session.Close() // there is a better error
			return nil, fmt.Errorf("the relay begins with %q", line)
		}
		return withDeadlines(p), nil
	})
	switch {
	case err == nil:
		return conn, nil
	case errors.As(err, new(*SudoError)):
		return nil, err
	}
	return nil, failed(ctx, r.client.host, fmt.Errorf("unix socket %s, as root: %w (is the daemon running there?)", path, err))
}

// A process is its standard input and output.
func (p *process) Read(b []byte) (int, error)  { return p.out.Read(b) }
func (p *process) Write(b []byte) (int, error) { return p.in.Write(b) }
func (p *process) Close() error                { return p.session.Close() }

// relayError is why a relay has ended.
func relayError(p *process) error {
	status, err := p.status()
	why := p.stderr.text()
	switch {
	case err != nil:
		return err
	case status == 126 || status == 127: // of the shell
		return &refusedError{"connecting to root's sockets needs python3 there; or permit the account to open them itself, and leave sudo out of the fleet file (" + why + ")"}
	}
	return &refusedError{why}
}

// refusedError is why root could not connect on the switch; the login is as good
// as before.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }
