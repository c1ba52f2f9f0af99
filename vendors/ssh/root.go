package ssh

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/csig-agent/csig/inventory"
)

// Root is a login that has become root by sudo. It runs commands
// as Client does, one at a time; its methods may be called from several
// goroutines.
type Root struct {
	client *Client
	shell  *rootShell
	turn   chan struct{} // has one element while nobody runs a command

	relays sync.Mutex // guards relay
	relay  *relay     // nil until a socket is connected to
}

// DialRoot logs in as Dial does and becomes root as cfg.Login.Sudo says. After
// a *SudoError something has to be changed first. cfg.Timeout holds for either
// half.
func DialRoot(ctx context.Context, cfg Config) (*Root, error) {
	if cfg.Login.Sudo == nil {
		cfg.Login.Sudo = &inventory.Sudo{}
	}
	c, err := Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	timeout := cfg.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer for %v", timeout))
	defer cancel()
	b, err := newBecoming(c, cfg.Login)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("ssh to %s: %w", c.host, err)
	}
	r := &Root{client: c, turn: make(chan struct{}, 1)}
	folder, err := b.become(limited)
	if err == nil {
		r.shell, err = c.openRoot(limited, folder)
	}
	if err != nil {
		c.Close()
		if refused := (*SudoError)(nil); errors.As(err, &refused) {
			return nil, err
		}
		return nil, fmt.Errorf("ssh to %s: become root by sudo: %w", c.host, err)
	}
	r.turn <- struct{}{}
	return r, nil
}

// openRoot connects to the pipes in a folder, and sees whether root answers.
func (c *Client) openRoot(ctx context.Context, folder string) (*rootShell, error) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	session, err := c.ssh.NewSession()
	if err != nil {
		return nil, fmt.Errorf("open a session beside the terminal's (does sshd permit several? MaxSessions): %w", err)
	}
	why := &limited{max: maxStderr}
	session.Stderr = why
	in, err := session.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := session.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := session.Start(fmt.Sprintf(plumb, folder)); err != nil {
		return nil, err
	}
	s := newRootShell(c.host, in, out)
	if err := s.begin(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: root's shell is there, and what it is sent through %s does not arrive", context.Cause(ctx), folder)
		}
		c.Close()
		_ = session.Wait() // standard error says why
		return nil, fmt.Errorf("%w (%s)", err, strings.TrimSpace(why.kept.String()))
	}
	return s, nil
}

// Run runs a command line of /bin/sh as root, gives it stdin and returns what it
// prints on standard output, as Client.Run does: a status other than 0 is an
// *ExitError, and the connection stays of use. After any other error it is
// closed.
func (r *Root) Run(ctx context.Context, command string, stdin []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("ssh to %s: %w", r.client.host, context.Cause(ctx))
	}
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("ssh to %s: %w", r.client.host, context.Cause(ctx))
	case <-r.turn:
	}
	defer func() { r.turn <- struct{}{} }()
	stop := context.AfterFunc(ctx, func() { r.Close() })
	defer stop()
	out, err := r.shell.run(command, stdin)
	var exit *ExitError
	switch {
	case err == nil || errors.As(err, &exit):
		return out, err
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	r.Close()
	return nil, fmt.Errorf("ssh to %s: %w", r.client.host, err)
}

// Close ends the connection, root's shell and what runs in it. It may be called
// many times.
func (r *Root) Close() error { return r.client.Close() }

// serve is root's shell: it takes requests, a line each, and answers them. A
// request is a word, the length of the command's input and the command, with
// its input behind it. The answer is what the command prints, in base64, a line
// with the word and the status, the beginning of standard error in base64, and
// the word again. Neither input nor output is ever in a file. Input that the
// command leaves is thrown away.
//
// Standard input has the requests, descriptor 9 takes the answers, and 3 the
// status around the pipe.
const serve = `LC_ALL=C; export LC_ALL; ` +
	`while IFS=" " read -r n l c; do ` +
	`c=$(printf %b "$c"); c=${c#.}; c=${c%.}; ` +
	`e=$({ s=$({ { [ "$l" = 0 ] || head -c "$l"; } | { /bin/sh -c "$c" 3>&- 9>&-; echo $? >&3; cat >/dev/null; } | base64 3>&- >&9; } 3>&1); ` +
	`echo ":$n $s" >&9; } 2>&1 >/dev/null | { head -c 4096; cat >/dev/null; } | base64); ` +
	`echo "$e" >&9; echo ":$n" >&9; ` +
	"done\n"

// rootShell is our end of serve.
type rootShell struct {
	host string
	in   io.Writer
	out  *bufio.Reader
}

func newRootShell(host string, in io.Writer, out io.Reader) *rootShell {
	return &rootShell{host: host, in: in, out: bufio.NewReaderSize(out, 64<<10)}
}

// begin tells the shell what it is, and waits for its first answer.
func (s *rootShell) begin() error {
	if _, err := io.WriteString(s.in, serve); err != nil {
		return errLost
	}
	_, err := s.run("true", nil)
	return err
}

var errLost = errors.New("the connection was lost, or root's shell was ended")

func (s *rootShell) run(command string, stdin []byte) ([]byte, error) {
	if strings.IndexByte(command, 0) >= 0 {
		return nil, fmt.Errorf("%q has a zero byte, which no command can have", brief(command))
	}
	var request bytes.Buffer
	word := newWord()
	fmt.Fprintf(&request, "%s %d .%s.\n", word, len(stdin), quoted(command))
	written := make(chan struct{})
	go func() { // the answer says what came of it
		defer close(written)
		if _, err := s.in.Write(request.Bytes()); err == nil && len(stdin) > 0 {
			_, _ = s.in.Write(stdin)
		}
	}()
	out, why := &limited{max: maxOutput, fail: true}, &limited{max: maxStderr}
	status, err := s.decode(out, word)
	switch {
	case out.over:
		return nil, fmt.Errorf("%s prints more than %d bytes", brief(command), maxOutput)
	case err != nil:
		return nil, err
	}
	code, err := strconv.Atoi(status)
	if err != nil {
		return nil, fmt.Errorf("root's shell tells no exit status of %s, but %q", brief(command), brief(status))
	}
	if _, err := s.decode(why, word); err != nil {
		return nil, err
	}
	<-written // all of it was read over there
	if code != 0 {
		return nil, &ExitError{Host: s.host, Command: brief(command), Status: code, Stderr: why.kept.String()}
	}
	return out.kept.Bytes(), nil
}

// decode reads base64 up to the line of the word, and returns what follows that
// word.
func (s *rootShell) decode(to io.Writer, word string) (string, error) {
	var buf [3 << 10]byte
	for {
		line, err := s.out.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return "", errLost
		}
		line = bytes.TrimRight(line, "\r\n")
		if rest, ok := bytes.CutPrefix(line, []byte(":"+word)); ok && err == nil {
			return strings.TrimSpace(string(rest)), nil
		}
		n := 0
		if err == nil && len(line) <= len(buf) {
			n, err = base64.StdEncoding.Decode(buf[:], line)
		}
		if err != nil || len(line) > len(buf) {
			return "", fmt.Errorf("root's shell answers %q, which is no answer", brief(string(line)))
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return "", err
		}
	}
}
