package integration

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/quantize"
)

// inSession runs csig agent as the leader of a session, with a controlling terminal or
// without one, as services run.
func (b *bed) inSession(t *testing.T, terminal *os.File) *agent {
	t.Helper()
	socket := filepath.Join(b.dir, "agent.sock")
	cmd := b.s1.Command(csig, "agent", "-i", b.write(t), "--socket", socket, "--no-self-test")
	cmd.SysProcAttr.Setsid = true
	if terminal != nil {
		cmd.Stdin, cmd.SysProcAttr.Setctty = terminal, true
	}
	return launchIn(t, cmd, socket)
}

// TestReloadsItsFile changes the file of an agent that runs as a service. No frame reads
// anything but a value of the file before or of the file after.
func TestReloadsItsFile(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	b.pace(900 * time.Millisecond) // and the lease: a machine that is held up for less lapses none
	b.setLoad(t, roomy-streamBPS)
	p := b.probes(t)
	a := b.inSession(t, nil)
	a.live()
	p.stream()

	locators := &b.fleet.Devices[0].Ports[0].LM
	for _, s := range []struct {
		name, bad, want string // bad: what the file has in place of a speed
		lm              uint16
	}{
		{name: "a change", lm: 21},
		{name: "a mistake", lm: 22, bad: "speed: fast", want: "bed.yaml:"},
		{name: "corrected", lm: 23},
	} {
		before := a.await("that it runs", func(*api.Status) bool { return true })
		was := (*locators)[quantize.MinABW]
		(*locators)[quantize.MinABW] = s.lm
		if s.bad == "" {
			b.write(t)
		} else { // at once: the agent looks at the file by itself, too
			text, err := inventory.Marshal(b.fleet)
			if err == nil {
				err = os.WriteFile(filepath.Join(b.dir, "bed.yaml"), regexp.MustCompile("speed: .*").ReplaceAll(text, []byte(s.bad)), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := a.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
		after := a.await("the file: "+s.name, func(st *api.Status) bool {
			return st.Reload != nil && (before.Reload == nil || st.Reload.Time.After(before.Reload.Time)) && (s.bad != "") == (st.Reload.Error != "")
		})
		if !strings.Contains(after.Reload.Error, s.want) || (after.ConfigHash == before.ConfigHash) != (s.bad != "") || after.Started != before.Started || after.Cycle.Lapses != 0 {
			t.Errorf("%s: %+v", s.name, after)
		}
		if s.bad != "" {
			(*locators)[quantize.MinABW] = was
		}
		want := (*locators)[quantize.MinABW]
		for sent := time.Now(); ; {
			f := p.next()
			if !f.Tagged || f.Tag.T == quantize.MinABWC && f.Tag.LM != lmABWC || f.Tag.T == quantize.MinABW && f.Tag.LM != was && f.Tag.LM != want {
				t.Fatalf("%s: a frame reads %+v", s.name, f.Tag)
			}
			if f.Tag.T == quantize.MinABW && f.Tag.LM == want && f.Payload.Sent.After(sent) {
				break
			}
		}
	}
	if err := a.signal(syscall.SIGTERM); err != nil {
		t.Errorf("the agent exits with %v", err)
	}
}

// TestSignalRepeatedAtOnce sends a signal as a supervisor does that means the
// process and its group: the second one must not keep the agent from removing
// what it made.
func TestSignalRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	before := b.ruleset(t)
	for range 3 {
		a := b.start(t, "--no-self-test")
		a.live()
		for range 2 {
			if err := a.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
		}
		if <-a.ended; a.err != nil {
			t.Errorf("SIGINT twice: the agent exits with %v", a.err)
		}
		if after := b.ruleset(t); after != before {
			t.Fatalf("SIGINT twice leaves\n%s\nbehind; before it was\n%s", after, before)
		}
	}
}

// TestLogReaderGoesAway runs an agent whose log has lost its reader.
func TestLogReaderGoesAway(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	b.setLoad(t, roomy)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	file, socket := b.write(t), filepath.Join(b.dir, "agent.sock")
	cmd := b.s1.Command(csig, "agent", "-i", file, "--socket", socket, "--log-level", "debug")
	cmd.Stderr = w
	a := launchIn(t, cmd, socket)
	w.Close()
	a.live()
	if err := a.signal(syscall.SIGTERM); err != nil {
		t.Errorf("the agent exits with %v", err)
	}
}
