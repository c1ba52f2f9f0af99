package ssh

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/scrapli/scrapligo/channel"
	"github.com/scrapli/scrapligo/driver/generic"
	"github.com/scrapli/scrapligo/driver/options"

	"github.com/csig-agent/csig/inventory"
)

// SudoError is a login that may not become root. Trying again will not help
// until something is changed on the switch or in the fleet file, and may lock
// the account.
type SudoError struct {
	Host string
	Err  error
}

func (e *SudoError) Error() string {
	return fmt.Sprintf("ssh to %s: become root by sudo: %v", e.Host, e.Err)
}

func (e *SudoError) Unwrap() error { return e.Err }

// elevate is what the login shell runs, which may be any: sudo with a prompt of
// our own, asking for the password in any case (-k), so that no permission
// stays behind. Nobody may write to the terminal meanwhile.
const elevate = `exec /bin/sh -c 'mesg n 2>/dev/null; exec env LC_ALL=C sudo -k -u root -p "$1" -- /bin/sh -c "$2"' csig '%[1]s-password: ' '` + asRoot + `'`

// asRoot is what sudo runs. It makes two named pipes that the account can open,
// tells where, takes the script that it is to be from one of them, as a line,
// and removes their names, as it does when it is ended before.
//
// Requests and answers do not pass the terminal: somebody might write to it;
// sudo may keep a record of it; and where sudo puts a terminal of its own in
// between (use_pty), version 1.9.13 never ends, and takes all of a processor,
// if the connection is lost while a command has not read its input.
const asRoot = `PATH="$PATH:/usr/sbin:/usr/bin:/sbin:/bin"; for t in mktemp mkfifo chown rm head base64 cat; do command -v "$t" >/dev/null || { echo "csig misses $t"; exit 1; }; done; ` +
	`d=$(mktemp -d) && trap "rm -rf $d" EXIT && trap "exit 1" HUP INT TERM && mkfifo -m 600 "$d/in" "$d/out" && chown "$SUDO_UID" "$d" "$d/in" "$d/out" && ` +
	`exec <>"$d/in" 9<>"$d/out" && echo %[1]s"-ready $d." && IFS= read -r s && exec <"$d/in" 9>"$d/out" && rm -rf "$d" && trap - EXIT HUP INT TERM && eval "$s"`

// plumb is what the account runs, to which the two pipes are one connection.
// Neither end can outlive the other.
const plumb = `exec /bin/sh -c 'exec 3<"$1/out" 4>"$1/in" && { cat <&3 4>&- & exec cat >&4 3<&-; }' csig %s`

// becoming is a login on its way to root.
type becoming struct {
	login    inventory.SSH
	driver   *generic.Driver
	terminal *terminal
	word     string // nobody else's: what is waited for begins with it
	password string // once sudo has asked for it
}

// newWord returns a word that nobody can guess.
func newWord() string { return "csig" + strings.ToLower(rand.Text()) }

func newBecoming(c *Client, login inventory.SSH) (*becoming, error) {
	b := &becoming{login: login, word: newWord()}
	b.terminal = &terminal{client: c, command: fmt.Sprintf(elevate, b.word)}
	var err error
	b.driver, err = generic.NewDriver(c.host, options.WithCustomTransport(b.terminal))
	return b, err
}

// become opens the terminal, becomes root there, and returns the folder with the
// pipes to root's shell. The caller closes the client after an error.
func (b *becoming) become(ctx context.Context) (folder string, err error) {
	// There is no context for opening; closing the connection ends that, too.
	stop := context.AfterFunc(ctx, func() { b.terminal.client.Close() })
	defer stop()
	if err := b.driver.Open(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", err
	}
	if folder, err = b.answer(ctx); err != nil {
		_ = b.driver.Close() // there is a better error
		return "", err
	}
	b.terminal.detach()
	return folder, b.driver.Close()
}

// answer types the password once, where sudo asks for it, until root is there.
func (b *becoming) answer(ctx context.Context) (folder string, err error) {
	ready := regexp.MustCompile(b.word + `-ready (/[A-Za-z0-9/._-]+)\.\n`)
	// sudo-rs puts words of its own around the prompt.
	asked := regexp.MustCompile(b.word + `-password[^\n]*\z`)
	for {
		shown, err := b.driver.Channel.ReadUntilAnyPrompt(ctx, []*regexp.Regexp{ready, asked})
		if ctx.Err() != nil {
			return "", fmt.Errorf("%w%s", context.Cause(ctx), b.last("; the terminal shows"))
		}
		if err != nil { // scrapligo's word for a terminal that has ended
			return "", b.refused()
		}
		if m := ready.FindSubmatch(shown); m != nil {
			return string(m[1]), nil
		}
		if b.password != "" {
			return "", b.refused()
		}
		if err := b.typePassword(ctx, b.driver.Channel); err != nil {
			return "", err
		}
	}
}

func (b *becoming) typePassword(ctx context.Context, to *channel.Channel) error {
	from := b.secret()
	if from.IsZero() {
		return b.never("it asks for a password, and the fleet file has none: add sudo: {password: {file: /PATH}} (management: ssh), or permit the account sudo without one (NOPASSWD)")
	}
	password, err := from.Resolve(ctx)
	if err != nil {
		return b.never("%w", err)
	}
	if strings.ContainsFunc(password, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return b.never("the password from %s has a control character, which cannot be typed: give the account another one", from)
	}
	b.password = password
	return to.WriteAndReturn([]byte(password), true)
}

func (b *becoming) secret() inventory.Secret {
	if !b.login.Sudo.Password.IsZero() {
		return b.login.Sudo.Password
	}
	return b.login.Password
}

// refused says why sudo has ended, or asks again, and what to do.
func (b *becoming) refused() error {
	user := b.login.User
	permit := fmt.Sprintf("permit it there with visudo, e.g. %s ALL=(root) ALL", user)
	wrong := fmt.Sprintf("it refuses the password of %s from %s: try sudo -k true there by hand, and mend the secret or the fleet file", user, b.secret())
	const noTerminal = "it does not take this for a terminal: take requiretty out of the sudoers file there, or look at PAM's set-up of sudo"
	text := b.text()
	for _, row := range []struct{ sign, says string }{
		{"incorrect password", wrong},
		{"try again", wrong},
		{"not in the sudoers file", user + " is not in the sudoers file: " + permit},
		{"may not run sudo", user + " may not run sudo: " + permit},
		{"not allowed to", user + " may not run /bin/sh as root: " + permit + "; where only nft and ip are permitted, and without a password, leave sudo out of the fleet file"},
		{"a password is required", fmt.Sprintf("it wants a password and does not ask for it: look at the sudoers file and at PAM's set-up of sudo there, or permit %s sudo without one (NOPASSWD)", user)},
		{"must have a tty", noTerminal},
		{"a terminal is required", noTerminal},
		{"env: ", "there is no sudo: install it there, or log in as root"},
		{"csig misses ", "root's shell there has not all that csig needs (mktemp, mkfifo, chown, rm, head, base64, cat): install coreutils, or busybox with these"},
		{"no new privileges", "nobody who logs in there can get other rights: sshd was started so (NoNewPrivileges), in a container perhaps"},
	} {
		if strings.Contains(text, row.sign) {
			return b.never("%s%s", row.says, b.last("; it says"))
		}
	}
	return errors.New("it has ended" + b.last(" and says") + ": try sudo -k /bin/sh there by hand")
}

func (b *becoming) never(format string, args ...any) error {
	return &SudoError{Host: b.terminal.client.host, Err: fmt.Errorf(format, args...)}
}

// text is what the terminal shows, without what is our own.
func (b *becoming) text() string {
	if b.terminal.screen == nil {
		return ""
	}
	text := b.terminal.screen.shown()
	if b.password != "" { // nobody echoes it; but errors are mailed about
		text = strings.ReplaceAll(text, b.password, "<hidden>")
	}
	text = strings.ReplaceAll(text, fmt.Sprintf(asRoot, b.word), "…")
	text = strings.ReplaceAll(text, b.word+"-password:", "password:")
	return strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
}

// last is the end of what the terminal shows, as words show, in quotes; "" where
// it shows nothing.
func (b *becoming) last(words string) string {
	text := b.text()
	const most = 300
	if len(text) > most {
		text = "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	if text == "" {
		return ""
	}
	return fmt.Sprintf("%s %q", words, text)
}

// unquoted are the bytes that a request cannot have as they are.
var unquoted = []byte{'\\', '\n', ' '}

// quoted is a command in the form that printf's %b undoes.
func quoted(command string) []byte {
	var b bytes.Buffer
	for i := range len(command) {
		if bytes.IndexByte(unquoted, command[i]) >= 0 {
			fmt.Fprintf(&b, `\0%03o`, command[i])
		} else {
			b.WriteByte(command[i])
		}
	}
	return b.Bytes()
}
