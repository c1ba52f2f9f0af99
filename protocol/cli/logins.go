package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/scrapli/scrapligo/channel"
	"github.com/scrapli/scrapligo/driver/opoptions"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// Users is how a command line shows who is logged in, in the form that Comware and VRP share,
// and how it ends a login.
type Users struct {
	List string   // the command that lists them
	End  []string // commands for a line (%s) such as "vty 1", of which a switch knows one
}

// maxLogins is how many are kept for the next owner, maxName how long the name of one is, in bytes.
const (
	maxLogins = 8
	maxName   = 200
)

// user is a login as the switch shows it.
type user struct {
	line string // "vty 1"
	name string // all about it that stays as long as it is logged in
	own  bool
}

var (
	userRow    = regexp.MustCompile(`^\s*(\+?)\s*F?\s*\d+\s+(VTY|CON|AUX|TTY)\s+(\d{1,3})\s+\S+\s*(.*)$`) // \S+: how long it is idle
	userDetail = regexp.MustCompile(`^(VTY|CON|AUX|TTY) (\d{1,3})\s*:\s*$`)
	userLegend = regexp.MustCompile(`^\s*[+F]\s+:`)
)

// users reads an answer: rows of lines, and what more is known of one below its row or, in the
// second part, below its name.
func users(answer []string) []user {
	var out []user
	at := -1
	for _, line := range answer {
		if m := userRow.FindStringSubmatch(line); m != nil {
			name := strings.ToLower(m[2]) + " " + m[3]
			out = append(out, user{line: name, name: name + " " + strings.Join(strings.Fields(m[4]), " "), own: m[1] != ""})
			at = len(out) - 1
		} else if m := userDetail.FindStringSubmatch(line); m != nil {
			name := strings.ToLower(m[1]) + " " + m[2]
			at = slices.IndexFunc(out, func(u user) bool { return u.line == name })
		} else if userLegend.MatchString(line) {
			at = -1
		} else if text := strings.Join(strings.Fields(line), " "); at >= 0 && strings.Contains(text, ":") {
			out[at].name += ", " + text
		}
	}
	for i := range out {
		out[i].name = untrusted.Text(out[i].name, maxName)
	}
	return out
}

// Logins are those at a switch that may still send something, of who drove it before and of this session, by their names
// there, or UnknownLogin.
type Logins interface {
	Open() []string

	// Keep replaces them. It returns when a successor will find them.
	Keep(ctx context.Context, logins []string) error
}

// UnknownLogin stands for one that may be open and was not seen.
const UnknownLogin = "?"

// keepLogin has a successor know of this login, before anything is changed by it.
func (s *Session) keepLogin(ctx context.Context) error {
	own, now := UnknownLogin, []user(nil)
	answer, err := s.Run(ctx, s.cfg.Users.List)
	switch {
	case err == nil:
		now = users(answer)
	case !errors.As(err, new(*RefusedError)):
		return err
	}
	for _, u := range now {
		if u.own {
			own = u.name
		}
	}
	open := slices.DeleteFunc(s.cfg.Logins.Open(), func(name string) bool {
		return name == own || name != UnknownLogin && err == nil && !slices.ContainsFunc(now, func(u user) bool { return u.name == name })
	})
	if open = append(open, own); len(open) > maxLogins {
		open = append(open[len(open)-maxLogins+1:], UnknownLogin)
	}
	return s.cfg.Logins.Keep(ctx, open)
}

// endsIn is how long a login may be shown after it was ended.
const endsIn = 5 * time.Second

// EndLogins ends those logins that are still open, but for this one, and returns when the switch
// shows them no more. An error is one of which nothing is known, too.
func (s *Session) EndLogins(ctx context.Context, logins []string) error {
	var told time.Time
	var answers []string
	for {
		answer, err := s.Run(ctx, s.cfg.Users.List)
		if err != nil {
			return err
		}
		open := users(answer)
		if slices.Contains(logins, UnknownLogin) || !slices.ContainsFunc(open, func(u user) bool { return u.own }) {
			return errors.New("the switch does not show which login is whose")
		}
		open = slices.DeleteFunc(open, func(u user) bool { return u.own || !slices.Contains(logins, u.name) })
		switch {
		case len(open) == 0:
			return nil
		case told.IsZero():
			for _, u := range open {
				answer, err := s.endLogin(ctx, u.line)
				if err != nil {
					return fmt.Errorf("login %s: %w", u.line, err)
				}
				answers = append(answers, answer)
			}
			told = time.Now()
		case time.Since(told) > endsIn || ctx.Err() != nil:
			return fmt.Errorf("login %s is still open: %s", open[0].line, strings.Join(answers, "; "))
		}
		select { // it looks again
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// sure is a question that a command asks before it is carried out.
const sure = `(?i)\[y/n\]\s*:?\s*$`

// endLogin gives the commands that end a login until the switch knows one, whose answer it returns.
func (s *Session) endLogin(ctx context.Context, line string) (answer string, err error) {
	for _, command := range s.cfg.Users.End {
		command = fmt.Sprintf(command, line)
		err = s.do(ctx, func() error {
			r, err := s.driver.Driver.SendInteractive(
				[]*channel.SendInteractiveEvent{{ChannelInput: command, ChannelResponse: sure}, {ChannelInput: "y"}},
				opoptions.WithCompletePatterns([]*regexp.Regexp{s.driver.Channel.PromptPattern}))
			if err != nil {
				return err
			}
			if answer = brief(r.Result); r.Failed != nil {
				return &RefusedError{Command: command, Answer: answer}
			}
			return nil
		})
		if !errors.As(err, new(*RefusedError)) {
			return answer, err
		}
	}
	return "", err
}
