package cli

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/csig-agent/csig/protocol/untrusted"
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
	if err := s.waits(); err != nil {
		return err
	}
	return fmt.Errorf("its prompt has not come within %v: it hangs, or is busy: csig logs in again; look at the load of its processor where that comes again", s.cfg.Timeout)
}

// unpaged are the commands that end paging, which scrapligo gives first.
var unpaged = map[string]string{
	Comware: "screen-length disable", VRP: "screen-length 0 temporary", EOS: "terminal length 0",
	NXOS: "terminal length 0", IOSXR: "terminal length 0", Junos: "set cli screen-length 0",
}

// pager is the line at which a device waits below a page.
var pager = regexp.MustCompile(`(?i)-+ ?\(?more\b[^-]*-+\s*$`)

// waits is an error where the device waits for a key below a page of its answer, or with a prompt
// that has another name.
func (s *Session) waits() error {
	last := strings.TrimSpace(s.wire.lastLine())
	if pager.MatchString(last) {
		return fmt.Errorf("it answers a page at a time, and waits (%s): may the account give the command %q?", untrusted.Text(last, 40), unpaged[s.cfg.Platform])
	}
	// Its own prompt may be there when csig itself was held up, with the name of a view behind its name.
	if s.name == "" || !anyPrompt.MatchString(last) || s.driver.Channel.PromptPattern.MatchString(last) {
		return nil
	}
	return fmt.Errorf("it waits with the prompt %q, and was called %s: was its name changed? csig logs in again", untrusted.Text(last, 80), s.name)
}

// paused ends a session whose command would have no end before its timeout.
func (s *Session) paused() {
	if err := s.waits(); err != nil {
		_ = s.lose(fmt.Errorf("%s: %w", s.host, err))
	}
}
