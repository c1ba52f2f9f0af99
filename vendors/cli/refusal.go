package cli

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/csig-agent/csig/vendors/untrusted"
)

// RefusedError is a command that the device did not take. Those before it were carried out.
type RefusedError struct {
	Line    int // of the commands given, from 0
	Command string
	Answer  string // of the device, cleaned
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the device refuses %q: %s", e.Command, e.Answer)
}

// refusalLines is how many lines a refusal has, at most.
const refusalLines = 8

// refusal is what an answer with a text of refusals says; "" where it is none: such a text may be
// a user's own, as in a description. A refusal is short, and a line begins with it; or it ends an
// answer that breaks off, whose rest does not belong in logs.
func (s *Session) refusal(lines []string) string {
	for i, line := range lines {
		for _, text := range s.driver.FailedWhenContains {
			begins := strings.HasPrefix(strings.TrimSpace(line), text) || unicode.IsLower(rune(text[0])) && strings.Contains(line, text)
			switch {
			case !begins:
			case len(lines) <= refusalLines:
				return brief(strings.Join(lines, "\n"))
			case i >= len(lines)-2 && !strings.HasPrefix(line, " "):
				return brief(line)
			}
		}
	}
	return ""
}

// anyPrompt is a line that looks like one of a command line.
var anyPrompt = regexp.MustCompile(`^[<\[~*]{0,2}\w[\w./:()@~*+-]{0,160}[>#\]$]$`)

// silence is why a command has no end: its prompt did not come.
func (s *Session) silence() error {
	if err := s.otherName(); err != nil {
		return err
	}
	return fmt.Errorf("its prompt has not come within %v: it hangs, or is busy: csig logs in again; look at the load of its processor where that comes again", s.cfg.Timeout)
}

// otherName is an error where the device waits with a prompt that has another name.
func (s *Session) otherName() error {
	last := strings.TrimSpace(s.wire.lastLine())
	if s.name == "" || !anyPrompt.MatchString(last) || nameOf.FindString(last) == s.name {
		return nil
	}
	return fmt.Errorf("it waits with the prompt %q, and was called %s: was its name changed? csig logs in again", untrusted.Text(last, 80), s.name)
}

// renamed ends a session whose command would have no end before its timeout.
func (s *Session) renamed() {
	if err := s.otherName(); err != nil {
		_ = s.lose(fmt.Errorf("%s: %w", s.host, err))
	}
}
