package inventory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Secret says where a credential is; it never holds the credential itself, so
// that a fleet and everything made of it can be shown, saved and mailed. One of
// the fields is set, none where the fleet file gives no secret.
type Secret struct {
	Env     string   `key:"env" is:"variable" doc:"A variable of csig's environment."`
	File    string   `key:"file" is:"path" doc:"A file that others may not read."`
	Command []string `key:"command,flow" is:"text" doc:"A program and its arguments, run without a shell."` // its standard output is the secret
}

// CommandTimeout is how long the command of a Secret may take.
const CommandTimeout = 10 * time.Second

// maxSecret bounds what a file or a command may give, in bytes.
const maxSecret = 64 << 10

// IsZero says that no secret is given.
func (s Secret) IsZero() bool { return s.Env == "" && s.File == "" && len(s.Command) == 0 }

// String names the place: "env:SNMP_COMMUNITY", "file:/etc/csig/key" or
// "command:pass". A command's arguments are left out, since people do put
// tokens there. "" where no secret is given.
func (s Secret) String() string {
	switch {
	case s.Env != "":
		return "env:" + s.Env
	case s.File != "":
		return "file:" + s.File
	case len(s.Command) > 0:
		return "command:" + s.Command[0]
	}
	return ""
}

// GoString is String in quotes, for %#v.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// Format is GoString for %#v and String for every other verb.
func (s Secret) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		fmt.Fprint(f, s.GoString())
		return
	}
	fmt.Fprint(f, s.String())
}

// MarshalText is String; encoding/json and others use it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Resolve fetches the secret, without the one line end that may follow it. No
// secret given, an empty one and one of several lines are errors. So is a file
// that its group may write, or others may do anything with: 0600 is meant, and
// 0640 is how a service's account is given a file of root's. A command runs
// without a shell, with csig's environment and no input, for CommandTimeout at
// most, and without the capabilities of csig agent. Errors name the place and what to do; none has a part of the secret.
func (s Secret) Resolve(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("secret %s: %w", s, err)
	}
	value, err := s.fetch(ctx)
	if err != nil {
		return "", fmt.Errorf("secret %s: %w", s, err)
	}
	if cut, ok := strings.CutSuffix(value, "\n"); ok {
		value = strings.TrimSuffix(cut, "\r")
	}
	switch {
	case value == "":
		return "", fmt.Errorf("secret %s: it is empty", s)
	case strings.ContainsAny(value, "\r\n"):
		return "", fmt.Errorf("secret %s: it has more than one line; leave the secret alone there", s)
	}
	return value, nil
}

func (s Secret) fetch(ctx context.Context) (string, error) {
	switch {
	case s.Env != "":
		value, ok := os.LookupEnv(s.Env)
		if !ok {
			return "", errors.New("the variable is not set in csig's environment; export it where csig is started")
		}
		return value, nil
	case s.File != "":
		return readSecret(s.File)
	case len(s.Command) > 0:
		return runForSecret(ctx, s.Command)
	}
	return "", errors.New("none is given; write {env: NAME}, {file: /PATH} or {command: [PROGRAM, ARGUMENT]} in the fleet file")
}

// ErrNotPlain is of a file whose reading might never end.
var ErrNotPlain = errors.New("it is not a plain file")

// isPlain reports whether reading a file ends: not that of a device or a pipe, nor of a
// file of the kernel that looks like a plain one.
func isPlain(file fs.File, info fs.FileInfo) bool { return info.Mode().IsRegular() && !ofKernel(file) }

// OpenPlain opens a file that cannot hold csig up, or returns ErrNotPlain. It looks at the file that it has opened, so that the
// one checked is the one read.
func OpenPlain(path string) (*os.File, fs.FileInfo, error) {
	// Opening a pipe must not wait for a writer.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !isPlain(file, info) {
		err = ErrNotPlain
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

func readSecret(path string) (string, error) {
	file, info, err := OpenPlain(path)
	if err != nil {
		return "", WithoutPath(err)
	}
	defer file.Close()
	if perm := info.Mode().Perm(); perm&0o037 != 0 {
		return "", fmt.Errorf("others can get at it (mode %04o); run: chmod 600 %s", perm, path)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return "", WithoutPath(err)
	}
	if len(data) > maxSecret {
		return "", fmt.Errorf("it is longer than %d bytes, this is no secret", maxSecret)
	}
	return string(data), nil
}

// WithoutPath is the cause of an *os.PathError, for a message that has the path already.
func WithoutPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func runForSecret(ctx context.Context, command []string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, CommandTimeout, fmt.Errorf("it took longer than %s", CommandTimeout))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := bounded{stop: stop}
	// Standard error is dropped: what a failing program says may well have the
	// secret in it.
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout = &out
	cmd.WaitDelay = time.Second // for a child of its own that keeps the pipe open
	err := unprivileged(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", fmt.Errorf("%w; run it by hand, as the user that csig runs as, to see why", err)
	}
	return out.text.String(), nil
}

// bounded keeps what a command prints, and ends one that prints too much.
type bounded struct {
	text bytes.Buffer
	stop context.CancelCauseFunc
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > maxSecret {
		b.stop(fmt.Errorf("it printed more than %d bytes, this is no secret", maxSecret))
		return 0, io.ErrShortWrite
	}
	return b.text.Write(p)
}
