package cli

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/scrapli/scrapligo/transport"

	"github.com/csig-agent/csig/vendors/ssh"
)

// wire is scrapligo's transport: the shell of a login.
type wire struct {
	client *ssh.Client
	shell  *ssh.Shell

	mu   sync.Mutex // guards what follows
	left int        // bytes that the device may send for this command
	err  error      // why reading ended
}

// start begins another command.
func (w *wire) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = maxOutput
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
	b := make([]byte, n)
	n, err := w.shell.Read(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left -= n
	switch {
	case w.err != nil:
		return nil, io.EOF
	case w.left < 0:
		w.err = fmt.Errorf("it sends more than %d bytes for one command", maxOutput)
		return nil, io.EOF
	case err != nil && n == 0:
		w.err = errLost
		return nil, io.EOF
	}
	return b[:n], nil
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
