package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/scrapli/scrapligo/driver/network"
	"github.com/scrapli/scrapligo/driver/options"
	"github.com/scrapli/scrapligo/platform"
	"github.com/scrapli/scrapligo/util"

	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/protocol/untrusted"
)

// DefaultTimeout is how long one command may take.
const DefaultTimeout = 30 * time.Second

// maxOutput is how many bytes the device may send for one command.
const maxOutput = 8 << 20

// maxLine is how many bytes of one line are kept.
const maxLine = 4 << 10

// Names of scrapligo's platform definitions.
const (
	Comware = "hp_comware"
	VRP     = "huawei_vrp"
	EOS     = "arista_eos"
	NXOS    = "cisco_nxos"
	IOSXR   = "cisco_iosxr"
	Junos   = "juniper_junos"
)

// Config is which device, and which command line it has.
type Config struct {
	Platform string // of scrapligo
	SSH      ssh.Config
	Timeout  time.Duration // of one command; 0: DefaultTimeout

	// Start is what a session sends first, such as a command that ends log messages on its
	// terminal.
	Start []string

	// Refusals are texts of the device that scrapligo's definition does not know.
	Refusals []string

	// Prompt is a pattern of the prompt in configuration mode, where that of scrapligo's
	// definition does not know all.
	Prompt string

	// Commit is the command of configuration, alone or with arguments, that may print
	// something and was carried out all the same, and Discard what takes back all since the
	// last one: it follows a refusal. "": each command takes effect by itself.
	Commit, Discard string

	// Mode is scrapligo's name of the mode that Configure enters; "": configuration.
	Mode string

	// Noise are lines that stand beside answers and are none, such as the time; nil: none.
	Noise *regexp.Regexp

	// Users is how logins are shown and ended; nil: it is not known. With it each login is kept
	// there, for a successor to end.
	Users  *Users
	Logins Logins // nil: no other drives the device
}

// errPosition is when it is unknown which answer belongs to which command.
var errPosition = errors.New("the session has lost its place")

// Session is a login. Its methods are for one goroutine at a time, but for Close.
type Session struct {
	cfg    Config
	host   string
	driver *network.Driver
	wire   *wire
	name   string // the device's, in its prompt

	once sync.Once
	mu   sync.Mutex // guards dead
	dead error      // why the session is of no use any more
}

// Dial logs in and brings the command line to a known state. It may take the timeouts of
// the login, and of each command.
func Dial(ctx context.Context, cfg Config) (_ *Session, err error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	client, err := ssh.Dial(ctx, cfg.SSH)
	if err != nil {
		return nil, err
	}
	sh, err := client.Shell(ctx)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	s := &Session{cfg: cfg, host: cfg.SSH.Address, wire: &wire{client: client, shell: sh, left: maxOutput, pause: answerPause}}
	p, err := platform.NewPlatform(cfg.Platform, cfg.SSH.Address,
		options.WithCustomTransport(s.wire), options.WithAuthBypass(), options.WithTimeoutOps(cfg.Timeout), options.WithTransportReadSize(32<<10))
	if err == nil {
		s.driver, err = p.GetNetworkDriver()
	}
	if err == nil {
		s.driver.FailedWhenContains = append(s.driver.FailedWhenContains, cfg.Refusals...)
		if mode := s.driver.PrivilegeLevels["configuration"]; mode != nil && cfg.Prompt != "" {
			mode.Pattern = cfg.Prompt
			s.driver.UpdatePrivileges()
		}
		err = s.do(ctx, s.open)
	}
	if err == nil && cfg.Users != nil && cfg.Logins != nil {
		err = s.keepLogin(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("command line of %s: %w", cfg.SSH.Address, err), s.Close())
	}
	return s, nil
}

// open brings a fresh session to its first prompt, and takes this prompt's name for the
// only one: other text of the device that looks like a prompt is none.
func (s *Session) open() error {
	if err := s.driver.Open(); err != nil {
		return err
	}
	prompt, err := s.driver.GetPrompt()
	if err != nil {
		return err
	}
	prompt = strings.TrimSpace(prompt)
	prompt = prompt[strings.LastIndexByte(prompt, '\n')+1:] // some have a line above it
	name := nameOf.FindString(prompt)
	if name == "" {
		return fmt.Errorf("%w: its prompt is %q", errPosition, untrusted.Text(prompt, 80))
	}
	s.name = name
	s.driver.Channel.PromptPattern = regexp.MustCompile(`(?m)^[<\[~*]{0,2}` + regexp.QuoteMeta(name) + `[\w./:()@~*+-]{0,96}[>#\]$]\s*$`)
	for _, line := range s.cfg.Start {
		r, err := s.driver.SendCommand(line)
		if err != nil {
			return err
		}
		if r.Failed != nil {
			return &RefusedError{Command: line, Answer: brief(r.Result)}
		}
	}
	return nil
}

// nameOf is the device's name in its prompt.
var nameOf = regexp.MustCompile(`\w[\w.-]*`)

// Run runs a command that changes nothing and returns what it prints, as clean lines. A
// refusal is a *RefusedError, and the session stays of use. When ctx ends, or the command
// takes longer than the timeout or prints more than csig accepts, the session is closed.
func (s *Session) Run(ctx context.Context, command string) (lines []string, err error) {
	if err := check(command); err != nil {
		return nil, err
	}
	err = s.do(ctx, func() error {
		r, err := s.driver.SendCommand(command)
		if err != nil {
			return err
		}
		if lines = clean(s.quiet(r.Result)); r.Failed != nil {
			if why := s.refusal(lines); why != "" {
				return &RefusedError{Command: command, Answer: why}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lines, nil
}

// Send gives one command in the mode that the session is in, and leaves it in the one that
// the command leads to: for modes that scrapligo does not know. It begins where Run ends,
// and is to be brought back there. Errors are those of Run.
func (s *Session) Send(ctx context.Context, command string) (lines []string, err error) {
	if err := check(command); err != nil {
		return nil, err
	}
	err = s.do(ctx, func() error {
		r, err := s.driver.Driver.SendCommand(command)
		if err != nil {
			return err
		}
		if lines = clean(r.Result); r.Failed != nil {
			if why := s.refusal(lines); why != "" {
				return &RefusedError{Command: command, Answer: why}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return lines, nil
}

// Configure gives commands in configuration mode, one after the other, and returns to the
// mode it came from. After a refusal no further command is sent: the *RefusedError says
// which it was, and what stands before it was carried out, unless Discard has taken it back.
// A command of configuration that prints anything is refused: devices report success by
// silence.
func (s *Session) Configure(ctx context.Context, commands []string) error {
	return s.inMode(ctx, commands, func() error { return s.configure(ctx, commands, 0) })
}

// inMode calls give, which gives commands, in configuration mode.
func (s *Session) inMode(ctx context.Context, commands []string, give func() error) error {
	for _, c := range commands {
		if err := check(c); err != nil {
			return err
		}
	}
	if len(commands) == 0 {
		return nil
	}
	if err := s.do(ctx, func() error { return s.driver.AcquirePriv(cmp.Or(s.cfg.Mode, "configuration")) }); err != nil {
		return err
	}
	failed := give()
	if failed != nil && s.cfg.Discard != "" && s.Err() == nil {
		// Else the device asks whether to commit when its mode is left.
		if err := s.configure(ctx, []string{s.cfg.Discard}, 0); err != nil {
			return errors.Join(failed, s.lose(fmt.Errorf("what was not committed stays: %w", err)))
		}
	}
	if s.Err() != nil {
		return failed
	}
	return errors.Join(failed, s.do(ctx, func() error { return s.driver.AcquirePriv(s.driver.DefaultDesiredPriv) }))
}

// configure gives commands, the first of which has number from.
func (s *Session) configure(ctx context.Context, commands []string, from int) error {
	for i, c := range commands {
		err := s.do(ctx, func() error {
			// The driver's own SendCommand would leave the mode.
			r, err := s.driver.Driver.SendCommand(c)
			if err != nil {
				return err
			}
			if answer := brief(s.quiet(r.Result)); r.Failed != nil || answer != "" && !s.commits(c) {
				return &RefusedError{Line: from + i, Command: c, Answer: answer}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// commits reports whether a command makes what was given before it take effect.
func (s *Session) commits(command string) bool {
	return s.cfg.Commit != "" && (command == s.cfg.Commit || strings.HasPrefix(command, s.cfg.Commit+" "))
}

// do runs one exchange with the device. Whatever went wrong but a refusal ends the
// session: which answer the next command would get is unknown.
func (s *Session) do(ctx context.Context, exchange func() error) (err error) {
	if err := s.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	stop := context.AfterFunc(ctx, func() { _ = s.lose(context.Cause(ctx)) })
	defer stop()
	s.wire.start(s.paused)
	defer s.wire.stop()
	func() {
		defer untrusted.Recover(&err)
		err = exchange()
	}()
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*RefusedError)):
		return err
	}
	switch why := s.wire.failure(); {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case why != nil:
		err = why
	case errors.Is(err, util.ErrTimeoutError):
		err = s.silence()
	}
	return s.lose(fmt.Errorf("%s: %w", s.host, untrusted.Error(err)))
}

// lose ends the session for a reason, the first of which stays.
func (s *Session) lose(why error) error {
	s.mu.Lock()
	if s.dead == nil {
		s.dead = why
	}
	s.mu.Unlock()
	_ = s.end() // why it is lost is the better error
	return s.Err()
}

// LocalAddr is the address of this machine that the login came from.
func (s *Session) LocalAddr() net.Addr { return s.wire.client.LocalAddr() }

// Err is why the session is of no use any more, nil while it is.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

var errClosed = errors.New("the session is closed")

// Close ends the session; what was configured stays. It may be called many times.
func (s *Session) Close() error {
	s.mu.Lock()
	if s.dead == nil {
		s.dead = errClosed
	}
	s.mu.Unlock()
	return s.end()
}

func (s *Session) end() (err error) {
	s.once.Do(func() { err = s.wire.Close() }) // before the channel, which waits for it
	if s.driver != nil && s.driver.Channel != nil {
		_ = s.driver.Channel.Close() // of the second caller at once
	}
	return err
}

// check refuses what is more than one command: fleet files have the names of ports. A "?"
// asks most devices for help before the line is complete.
func check(command string) error {
	for _, r := range command {
		if r < ' ' || r > '~' || r == '?' {
			return fmt.Errorf("%q cannot be part of a command: %s", r, untrusted.Text(command, 100))
		}
	}
	if strings.TrimSpace(command) == "" {
		return errors.New("the command is empty")
	}
	return nil
}

// clean is a device's answer as lines without control characters, indented as they were.
func clean(answer string) []string {
	var out []string
	for line := range strings.Lines(answer) {
		line = strings.TrimRight(line, " \t\r\n")
		text := strings.TrimLeft(line, " ")
		out = append(out, line[:min(len(line)-len(text), 80)]+untrusted.Text(text, maxLine))
	}
	return out
}

// quiet is an answer without noise.
func (s *Session) quiet(answer string) string {
	if s.cfg.Noise == nil {
		return answer
	}
	var b strings.Builder
	for line := range strings.Lines(answer) {
		if !s.cfg.Noise.MatchString(strings.TrimSpace(line)) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// brief is an answer as one line.
func brief(answer string) string { return untrusted.Text(strings.TrimSpace(answer), 300) }
