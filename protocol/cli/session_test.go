package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/protocol/ssh"
	"github.com/csig-agent/csig/vendors/cli/clitest"
)

// toy is a switch with the modes of Comware and four commands.
type toy struct {
	config bool
	paged  bool
	name   string
}

func (s *toy) Prompt() string {
	if s.config {
		return "[" + s.name + "]"
	}
	return "<" + s.name + ">"
}

func (s *toy) Page() (int, string) {
	if !s.paged {
		return 0, ""
	}
	return 3, "---- More ----"
}

func (s *toy) Do(line string) (string, bool) {
	switch {
	case line == "":
	case line == "screen-length disable" && !s.config:
		s.paged = false
	case line == "system-view" && !s.config:
		s.config = true
		return "System View: return to User View with Ctrl+Z.", false
	case line == "quit" && s.config:
		s.config = false
	case line == "quit":
		return "", true
	case line == "display long":
		return strings.Repeat("a line\n", 500), false
	case line == "display traps":
		return "first\n<other>\n[other-view]\n\x1b[31mred\x1b[0m \x07bell\x7f\nlast", false
	case line == "display words": // of the users' own
		return "interface x\n description % Unrecognized command, said the switch\n#\n" + strings.Repeat(" a line\n", 9) + "return", false
	case line == "display short":
		return "interface x\n description see '% Unrecognized command'", false
	case line == "display broken":
		return strings.Repeat(" a line\n", 20) + "% Wrong parameter", false
	case line == "display view":
		return s.Prompt() + "!", false
	case strings.HasPrefix(line, "set ") && s.config:
	case line == "wrong" && s.config:
		return "Error: it is in use.", false
	default:
		return " ^\n % Unrecognized command found at '^' position.", false
	}
	return "", false
}

func newToy(t *testing.T) *clitest.Server {
	return clitest.InMemory(t, func() clitest.Shell { return &toy{paged: true, name: "sw-1.lab"} })
}

func config(s *clitest.Server) Config {
	return Config{Platform: Comware, SSH: ssh.Config{Address: s.Address, Login: s.Login, Dial: s.Dial}, Timeout: 10 * time.Second}
}

func dial(t *testing.T, s *clitest.Server) *Session {
	t.Helper()
	c, err := Dial(t.Context(), config(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestRun(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		s := newToy(t)
		c := dial(t, s)
		if got, err := c.Run(t.Context(), "display long"); err != nil || len(got) != 500 || got[499] != "a line" {
			t.Errorf("%d lines, %v: paging is off", len(got), err)
		}
		// What looks like a prompt is none, and nothing reaches a terminal.
		got, err := c.Run(t.Context(), "display traps")
		if want := []string{"first", "<other>", "[other-view]", `red \x07bell\x7f`, "last"}; err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q, %v", got, err)
		}
		refused := (*RefusedError)(nil)
		if _, err := c.Run(t.Context(), "show version"); !errors.As(err, &refused) || !strings.Contains(refused.Answer, "Unrecognized command") || refused.Command != "show version" {
			t.Errorf("an unknown command: %v", err)
		}
		// Words of the configuration are no refusal, and no part of an error.
		for command, n := range map[string]int{"display words": 13, "display short": 2} {
			if got, err := c.Run(t.Context(), command); err != nil || len(got) != n {
				t.Errorf("%s: %d lines, %v", command, len(got), err)
			}
		}
		if _, err := c.Run(t.Context(), "display broken"); !errors.As(err, &refused) || refused.Answer != "% Wrong parameter" {
			t.Errorf("an answer that breaks off: %v", err)
		}
		for _, bad := range []string{"", "display ?", "set a\nquit", "set \x03", "set é"} {
			if _, err := c.Run(t.Context(), bad); err == nil {
				t.Errorf("%q is taken", bad)
			}
		}
		if got, err := c.Run(t.Context(), "display view"); err != nil || fmt.Sprint(got) != "[<sw-1.lab>!]" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestConfigure(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		s := newToy(t)
		s.Set(clitest.Faults{Bytes: true})
		c := dial(t, s)
		if err := c.Configure(t.Context(), []string{"set a", "set b"}); err != nil {
			t.Fatal(err)
		}
		s.Forget()
		// Neither an unknown command nor one that answers is passed over, and what follows is not sent.
		for _, wrong := range []string{"unknown", "wrong"} {
			err := c.Configure(t.Context(), []string{"set a", wrong, "set b"})
			refused := (*RefusedError)(nil)
			if !errors.As(err, &refused) || refused.Line != 1 || refused.Command != wrong {
				t.Errorf("%q: %v", wrong, err)
			}
			if got, err := c.Run(t.Context(), "display view"); err != nil || fmt.Sprint(got) != "[<sw-1.lab>!]" {
				t.Errorf("after %q: %q, %v", wrong, got, err)
			}
		}
		if got := strings.Join(s.Lines(), ";"); strings.Contains(got, "set b") || strings.Count(got, "set a") != 2 {
			t.Error(got)
		}
	})
}

// TestLost ends sessions in every way: each error says why, and the session is of no use
// any more.
func TestLost(t *testing.T) {
	t.Parallel()
	is := func(command string) func(string) bool { return func(line string) bool { return line == command } }
	answer := func(text string) func(string) (string, bool) {
		return func(line string) (string, bool) { return text, line == "display x" }
	}
	for name, tc := range map[string]struct {
		faults clitest.Faults
		want   string
	}{
		"dropped":        {clitest.Faults{Drop: is("display x")}, "ended the session"},
		"half way":       {clitest.Faults{Drop: is("display x"), Half: true}, "ended the session"},
		"no prompt":      {clitest.Faults{Answer: answer("text"), NoPrompt: true}, "its prompt has not come within"},
		"another name":   {clitest.Faults{Answer: answer("text\r\n<OTHER>"), NoPrompt: true}, `it waits with the prompt "<OTHER>", and was called`},
		"its name, late": {clitest.Faults{Answer: answer("text\r\n<OTHER>"), NoPrompt: true, Slow: 200 * time.Millisecond}, `it waits with the prompt "<OTHER>", and was called`},
		"a page":         {clitest.Faults{Answer: answer("text\r\n---- More ----"), NoPrompt: true}, `waits (---- More ----): may the account give the command "screen-length disable"?`},
		"a page so far":  {clitest.Faults{Answer: answer("text\r\n---(more 45%)---"), NoPrompt: true}, "waits (---(more 45%)---)"},
		"silence":        {clitest.Faults{Answer: answer(""), NoPrompt: true}, "its prompt has not come within"},
		"endless":        {clitest.Faults{Answer: answer(strings.Repeat("more and more of it\r\n", 1<<12)), Endless: true}, "sends more than"},
		"a line endless": {clitest.Faults{Answer: answer(strings.Repeat("x", 1<<16)), Endless: true}, "sends more than"},
	} {
		clitest.Run(t, name, func(t *testing.T) {
			s := newToy(t)
			c := dial(t, s)
			s.Set(tc.faults)
			began := time.Now()
			if _, err := c.Run(t.Context(), "display x"); err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), s.Address) {
				t.Errorf("%v", err)
			}
			want := 10 * time.Second // what is seen by the text is seen long before
			if strings.Contains(name, "name") || strings.Contains(name, "page") {
				want = answerPause + tc.faults.Slow
			} else if !tc.faults.NoPrompt {
				want = 0
			}
			if took := time.Since(began); took < want || took > want+time.Second {
				t.Errorf("it took %v, want %v", took, want)
			}
			s.Set(clitest.Faults{})
			if _, err := c.Run(t.Context(), "display view"); err == nil || c.Err() == nil {
				t.Errorf("it is used again: %v", err)
			}
		})
	}
}

// TestOwnPrompt: the prompt of a view is the device's own, however long csig was held up.
func TestOwnPrompt(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		c := dial(t, newToy(t))
		for last, own := range map[string]bool{"<sw-1.lab>": true, "[sw-1.lab-classifier-a]": true, "[~sw-1.lab-100GE1/0/1]": true, "<sw-2.lab>": false, "[other-view]": false} {
			c.wire.last = []byte("text\r\n" + last)
			if err := c.waits(); (err == nil) != own {
				t.Errorf("%s: %v", last, err)
			}
		}
	})
}

func TestContext(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		s := newToy(t)
		why := errors.New("that is enough")
		c := dial(t, s)
		ctx, cancel := context.WithCancelCause(t.Context())
		s.Set(clitest.Faults{NoPrompt: true, Answer: func(string) (string, bool) {
			cancel(why)
			return "text", true
		}})
		if _, err := c.Run(ctx, "display x"); !errors.Is(err, why) {
			t.Error(err)
		}
		if _, err := c.Run(t.Context(), "display view"); err == nil {
			t.Error("it is used again")
		}
		if _, err := Dial(ctx, config(s)); !errors.Is(err, why) {
			t.Error(err)
		}
	})
}

func TestDial(t *testing.T) {
	clitest.Virtual(t, func(t *testing.T) {
		s := newToy(t)
		for name, change := range map[string]func(*Config){
			"another key": func(c *Config) {
				c.SSH.Login.KnownHosts = t.TempDir() + "/none"
				if err := os.WriteFile(c.SSH.Login.KnownHosts, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			},
			"another account":     func(c *Config) { c.SSH.Login.User = "root" },
			"an unknown platform": func(c *Config) { c.Platform = "toy" },
			"a refused start":     func(c *Config) { c.Start = []string{"terminal length 0"} },
		} {
			cfg := config(s)
			change(&cfg)
			if c, err := Dial(t.Context(), cfg); err == nil {
				c.Close()
				t.Errorf("%s: it is taken", name)
			} else if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: %v", name, err)
			}
		}
		cfg := config(s)
		s.Set(clitest.Faults{NoPrompt: true, Answer: func(string) (string, bool) { return "% no", true }})
		if c, err := Dial(t.Context(), cfg); err == nil {
			c.Close()
			t.Error("a switch without a prompt")
		}
	})
}
