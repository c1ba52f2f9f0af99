package ssh

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// SudoError is a login that may not become root.
type SudoError struct {
	Host string
	Err  error
}

func (e *SudoError) Error() string {
	return fmt.Sprintf("ssh to %s: become root by sudo: %v", e.Host, e.Err)
}

func (e *SudoError) Unwrap() error { return e.Err }

// Permanent tells drivers not to try again: that may lock the account.
func (e *SudoError) Permanent() bool { return true }

// asAccount is what the account's login shell runs: sudo, which reads the password
// from standard input (-S), byte by byte up to the end of the line, and in any
// case (-k), so that no permission stays behind. Its prompt and the line of
// asRoot, both on standard error, begin with a word that is new each time: the
// password is sent when it is asked for, and the command's input when root runs.
const asAccount = `LC_ALL=C; PATH=/usr/bin:/bin:/usr/sbin:/sbin:$PATH; export LC_ALL PATH; exec sudo -S -k -u root -p "$1-password: " -- /bin/sh -c "$2" csig "$1" "$3"`

// asRoot is what sudo runs. Its PATH is not the account's, whatever sudoers sets.
const asRoot = `LC_ALL=C; PATH=/usr/sbin:/usr/bin:/sbin:/bin; export LC_ALL PATH; echo "$1-root" >&2; exec /bin/sh -c "$2"`

// maxPrinted bounds what sudo prints, a lecture included, in bytes.
const maxPrinted = 8 << 10

// sudoSession is a command on its way to root; it is the command's standard error.
type sudoSession struct {
	root    *root
	word    string
	asked   chan struct{} // has an element for each time that sudo asks
	arrived chan struct{} // closed when root runs

	mu       sync.Mutex
	password string
	printed  []byte  // by sudo
	prompts  int     // in printed
	runs     bool    // arrived is closed
	rest     limited // the command's own
}

func newSudoSession(r *root) *sudoSession {
	return &sudoSession{root: r, word: "csig" + strings.ToLower(rand.Text()), asked: make(chan struct{}, 1), arrived: make(chan struct{})}
}

// line is the command for the account's login shell.
func (b *sudoSession) line(command string) string {
	return "exec /bin/sh -c " + untrusted.ShellWord(asAccount) + " csig " + b.word + " " + untrusted.ShellWord(asRoot) + " " + untrusted.ShellWord(command)
}

// Write takes what the switch sends on standard error.
func (b *sudoSession) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runs {
		return b.rest.Write(p)
	}
	b.printed = append(b.printed, p...)
	if printed, rest, ok := bytes.Cut(b.printed, []byte(b.word+"-root\n")); ok {
		b.printed, b.runs = printed, true
		close(b.arrived)
		_, _ = b.rest.Write(rest)
	}
	if len(b.printed) > maxPrinted {
		return 0, untrusted.ErrTooLong
	}
	if n := bytes.Count(b.printed, []byte(b.word+"-password")); n > b.prompts {
		b.prompts = n
		select {
		case b.asked <- struct{}{}:
		default:
		}
	}
	return len(p), nil
}

// answerPrompt answers sudo, once, and not while another command waits for sudo's verdict
// on the password: several wrong ones may lock the account. It returns when root runs.
func (b *sudoSession) answerPrompt(ctx context.Context, p *process) (err error) {
	var turn chan struct{}
	defer func() {
		if errors.As(err, new(*SudoError)) {
			b.root.refuse(err)
		}
		if turn != nil {
			<-turn
		}
	}()
	for {
		select {
		case <-b.arrived:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.ended:
			select {
			case <-b.arrived:
				return nil
			default:
				return b.refused(p)
			}
		case <-b.asked:
			if b.password != "" {
				return b.refused(p)
			}
			select {
			case b.root.turn <- struct{}{}:
				turn = b.root.turn
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if err := b.root.refusal(); err != nil {
				return err
			}
			password, _, err := b.root.secret(ctx)
			if err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				return b.permanentError("%w", err)
			}
			b.mu.Lock()
			b.password = password
			b.mu.Unlock()
			if _, err := io.WriteString(p.in, password+"\n"); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
		}
	}
}

// refused returns why sudo has ended, or asks again, and what to do.
func (b *sudoSession) refused(p *process) error {
	login := &b.root.login
	user := login.User
	from := login.Sudo.Password
	if from.IsZero() {
		from = login.Password
	}
	permit := fmt.Sprintf("permit it there with visudo, e.g. %s ALL=(root) ALL", user)
	wrong := fmt.Sprintf("it refuses the password of %s from %s: try sudo -k true there by hand, and correct the secret or the fleet file", user, from)
	text := b.text()
	for _, row := range []struct{ sign, why string }{
		{"must have a tty", fmt.Sprintf("its sudoers file has requiretty, and csig uses no terminal: add the line Defaults:%s !requiretty there with visudo", user)},
		{"a terminal is required", "it does not read the password from its input (-S): permit " + user + " sudo without one (NOPASSWD), or look at the PAM configuration of sudo there"},
		{"incorrect password", wrong},
		{"try again", wrong},
		{"not in the sudoers file", user + " is not in the sudoers file: " + permit},
		{"may not run sudo", user + " may not run sudo: " + permit},
		{"not allowed to", user + " may not run /bin/sh as root: " + permit + "; where only nft and ip are permitted, and without a password, leave sudo out of the fleet file"},
		{"a password is required", fmt.Sprintf("it wants a password and does not ask for it: look at the sudoers file and the PAM configuration of sudo there, or permit %s sudo without one (NOPASSWD)", user)},
		{"no new privileges", "no account that logs in there can get other rights: sshd was started so (NoNewPrivileges), in a container perhaps"},
	} {
		if strings.Contains(text, row.sign) {
			return b.permanentError("%s%s", row.why, b.last("; sudo reports"))
		}
	}
	select {
	case <-p.ended:
	default: // it asks again
		return b.permanentError("%s%s", wrong, b.last("; sudo reports"))
	}
	switch status, err := p.status(); {
	case err != nil:
		return err
	case status == 126 || status == 127: // of the account's shell
		return b.permanentError("there is no sudo: install it there, or log in as root%s", b.last("; sudo reports"))
	}
	return errors.New("it has ended" + b.last("; sudo reports") + ": try sudo -k /bin/sh there by hand")
}

func (b *sudoSession) permanentError(format string, args ...any) error {
	return &SudoError{Host: b.root.client.host, Err: fmt.Errorf(format, args...)}
}

// text is the standard error of the command or, until root runs, of sudo, without
// csig's own markers.
func (b *sudoSession) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runs {
		return b.rest.text()
	}
	text := string(b.printed)
	if b.password != "" { // no echo is expected; but errors are mailed about
		text = strings.ReplaceAll(text, b.password, "<hidden>")
	}
	text = strings.ReplaceAll(text, asRoot, "…")
	text = strings.ReplaceAll(text, b.word+"-password:", "password:")
	const most = 300
	return untrusted.Text(text[max(0, len(text)-most):], most)
}

// last is the end of sudo's output in quotes, after words; "" where there is none.
func (b *sudoSession) last(words string) string {
	if text := b.text(); text != "" {
		return words + ` "` + text + `"`
	}
	return ""
}
