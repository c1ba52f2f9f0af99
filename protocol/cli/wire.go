package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/scrapli/scrapligo/transport"

	"github.com/csig-agent/csig/protocol/ssh"
)

// wire is scrapligo's transport: the shell of a login.
type wire struct {
	client *ssh.Client
	shell  *ssh.Shell
	pause  time.Duration // that the device makes in the middle of an answer, at most
	buf    []byte        // of Read, which one goroutine calls

	mu   sync.Mutex  // guards what follows
	left int         // bytes that the device may send for this command
	err  error       // why reading ended
	last []byte      // the end of what the device sent
	idle *time.Timer // runs while a command does, restarted by all that the device sends; nil before the first one
}

// answerPause is the longest pause that a device makes in the middle of an answer.
const answerPause = 5 * time.Second

// start begins another command, and calls paused where the device makes a longer pause in
// its answer.
func (w *wire) start(paused func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.idle = maxOutput, time.AfterFunc(w.pause, paused)
}

// stop ends a command.
func (w *wire) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle.Stop()
}

// lastKept is how many bytes of it are kept.
const lastKept = 256

// lastLine is the last line that the device sent, or its end.
func (w *wire) lastLine() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.last[bytes.LastIndexByte(w.last, '\n')+1:])
}

func (w *wire) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Open has nothing to do: Dial has logged in.
func (w *wire) Open(*transport.Args) error { return nil }

// IsAlive reports whether the device can still be read.
func (w *wire) IsAlive() bool { return w.failure() == nil }

var errLost = errors.New("the device has ended the session")

// Read reads what the device sends. Its only error is io.EOF, after which scrapligo reads
// no more; failure says why.
func (w *wire) Read(n int) ([]byte, error) {
	if len(w.buf) < n {
		w.buf = make([]byte, n)
	}
	n, err := w.shell.Read(w.buf[:n])
	b := bytes.Clone(w.buf[:n]) // most are a few bytes
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left -= n
	if w.idle != nil {
		w.idle.Reset(w.pause)
	}
	if w.last = append(w.last, b...); len(w.last) > lastKept {
		w.last = append(w.last[:0], w.last[len(w.last)-lastKept:]...)
	}
	switch {
	case w.err != nil:
		return nil, io.EOF
	case w.left < 0:
		w.err = fmt.Errorf("it sends more than %d bytes for one command: is its configuration that long? then csig cannot drive it", maxOutput)
		return nil, io.EOF
	case err != nil && n == 0:
		w.err = errLost
		return nil, io.EOF
	}
	return b, nil
}

// Write sends to the device.
func (w *wire) Write(b []byte) error {
	_, err := w.shell.Write(b)
	return err
}

// Close ends the login.
func (w *wire) Close() error {
	err := w.client.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = errLost
	}
	return err
}
