package integration

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/quantize"
)

// TestHangupEndsLikeTermination sends the agent what a closed terminal sends.
func TestHangupEndsLikeTermination(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	b.setLoad(t, roomy)
	p := b.probes(t)
	a := b.start(t, "--no-self-test")
	a.live()
	if err := a.signal(syscall.SIGHUP); err != nil {
		t.Errorf("SIGHUP: the agent exits with %v", err)
	}
	if _, err := p.tx.Send(quantize.MinABW); err != nil {
		t.Fatal(err)
	}
	if f := p.next(); !isStale(b, &f) {
		t.Errorf("after SIGHUP the rules still write %+v", f.Tag)
	}
}

// TestSignalRepeatedAtOnce sends a signal as a supervisor does that means the
// process and its group: the second one must not keep the agent from removing
// what it made.
func TestSignalRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t, quantize.Draft00)
	before := b.ruleset(t)
	for range 5 {
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
	a := &agent{&running{t: t, ended: make(chan struct{})}, api.NewClient(socket)}
	a.cmd = b.s1.Command(csig, "agent", "-c", file, "--socket", socket, "--log-level", "debug")
	a.cmd.Stderr = w
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() {
		a.err = a.cmd.Wait()
		close(a.ended)
	}()
	t.Cleanup(func() {
		a.client.Close()
		_ = a.cmd.Process.Kill() // it may have ended
		<-a.ended
	})
	a.live()
	if err := a.signal(syscall.SIGTERM); err != nil {
		t.Errorf("the agent exits with %v", err)
	}
}
