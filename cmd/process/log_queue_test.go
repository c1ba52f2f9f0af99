package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// gated starts to write, and continues when its gate is open.
type gated struct {
	begun, open chan struct{}
	got         bytes.Buffer
}

func (g *gated) Write(p []byte) (int, error) {
	select {
	case g.begun <- struct{}{}:
	case <-g.open:
	}
	<-g.open
	return g.got.Write(p)
}

// A reader that stops reading blocks no writer. When it reads again it gets what
// it had begun, how many lines are missing, and the newest lines to the last.
func TestLogQueueDropsTheOldest(t *testing.T) {
	g := &gated{begun: make(chan struct{}), open: make(chan struct{})}
	q := newLogQueue(g, func(n int) []byte { return fmt.Appendf(nil, "dropped %d\n", n) })
	const lines = 3000 // of 64 bytes: three times what may wait
	pad := strings.Repeat(".", 64-len("line 0000 \n"))
	for i := range lines {
		if n, err := fmt.Fprintf(q, "line %04d %s\n", i, pad); n != 64 || err != nil {
			t.Fatalf("line %d: %d, %v", i, n, err)
		}
		if i == 0 {
			<-g.begun // with nothing dropped: of the others there is one note
		}
	}
	if q.close() {
		t.Error("close reports that all was written, without a reader")
	}
	close(g.open)
	<-q.done
	next, notes := 0, 0
	for line := range strings.Lines(g.got.String()) {
		var i, n int
		if _, err := fmt.Sscanf(line, "dropped %d\n", &n); err == nil {
			next += n
			notes++
			continue
		}
		if _, err := fmt.Sscanf(line, "line %d ", &i); err != nil || i != next || len(line) != 64 {
			t.Fatalf("%q, want line %d", line, next)
		}
		next++
	}
	if next != lines || notes != 1 {
		t.Errorf("%d lines are accounted for, of %d, in %d notes", next, lines, notes)
	}
	if n := g.got.Len(); n < logWaits || n > logWaits+3*64 {
		t.Errorf("%d bytes were kept, want %d and what was on its way", n, logWaits)
	}
}

func TestLogQueueWritesAllToAReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		all, _ := io.ReadAll(r) // what there is
		read <- string(all)
	}()
	q := newLogQueue(w, func(n int) []byte { return fmt.Appendf(nil, "dropped %d\n", n) })
	line := []byte("one\n")
	fmt.Fprintf(q, "%s", line)
	copy(line, "two") // the logger writes into the same memory again
	fmt.Fprintf(q, "%s", line)
	if !q.close() {
		t.Error("close reports that not all was written")
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if got := <-read; got != "one\ntwo\n" {
		t.Errorf("%q", got)
	}
}

// A reader that is gone is no reason to wait.
func TestLogQueueWithoutAReader(t *testing.T) {
	q := newLogQueue(writerFunc(func([]byte) (int, error) { return 0, errors.New("broken pipe") }), nil)
	for range 10 {
		fmt.Fprintln(q, "a line")
	}
	if !q.close() {
		t.Error("close waits for a reader that is gone")
	}
}

func TestDroppedLinesIsALineOfTheLog(t *testing.T) {
	for format, want := range map[string]string{
		"text": `level=warning msg="lines of the log were dropped: no reader" dropped=7`,
		"json": `"dropped":7,"level":"warning","msg":"lines of the log were dropped: no reader"`,
	} {
		log, err := newLog("info", format)
		if err != nil {
			t.Fatal(err)
		}
		line := string(droppedLines(log, 7))
		if !strings.Contains(line, want) || !strings.HasSuffix(line, "\n") || strings.Count(line, "\n") != 1 {
			t.Errorf("%s: %q", format, line)
		}
		if year := fmt.Sprint(time.Now().Year()); !strings.Contains(line, year) {
			t.Errorf("%s: no time in %q", format, line)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
