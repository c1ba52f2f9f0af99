package fabric

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// NS is a network namespace that lives as long as this process holds it: it
// has no name in the file system. IPv6 is off inside, so that no interface
// sends frames of its own accord.
type NS struct {
	name string
	fd   int

	calls chan func() // run by the keeper thread
	gone  chan struct{}

	mu     sync.RWMutex // guards closed, and calls against being closed while in use
	closed bool
}

// NewNS makes a network namespace with its loopback up. The name is for
// messages only.
func NewNS(name string) (*NS, error) {
	n := &NS{name: name, fd: -1, calls: make(chan func()), gone: make(chan struct{})}
	ready := make(chan error, 1)
	go offMainThread(func() { n.keep(ready) })
	if err := <-ready; err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", name, err)
	}
	return n, nil
}

// keep is the keeper thread: it makes the namespace, and starts the children
// inside it. Children must come from a thread that stays, for the kernel kills
// them when the thread that started them ends.
func (n *NS) keep(ready chan<- error) {
	defer close(n.gone)
	err := func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare (run as root, or after fabric.Enter): %w", err)
		}
		fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open /proc/thread-self/ns/net: %w", err)
		}
		if err := quiet(); err != nil {
			unix.Close(fd)
			return err
		}
		n.fd = fd
		return nil
	}()
	ready <- err
	if err != nil {
		return
	}
	for call := range n.calls {
		call()
	}
}

// quiet brings the loopback up and IPv6 off in the namespace of the thread.
func quiet() error {
	for _, which := range []string{"all", "default"} {
		file := "/proc/sys/net/ipv6/conf/" + which + "/disable_ipv6"
		if err := os.WriteFile(file, []byte("1\n"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("switch IPv6 off, so that only wanted frames are on the links: %w", err)
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}

// offMainThread runs f on a thread of its own, which ends with f, as it may
// have moved to another namespace. It never is the process's main thread: that
// one cannot end, and /proc/self would show its namespace for ever.
func offMainThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f() // no unlock: the thread ends with the goroutine
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		offMainThread(f)
	}()
	<-done // the main thread is ours until then, so f is on another one
	runtime.UnlockOSThread()
}

// Name is the name given to NewNS.
func (n *NS) Name() string { return n.name }

// FD is the namespace's file descriptor, open until Close.
func (n *NS) FD() int { return n.fd }

// Do runs f on a thread inside the namespace and returns f's error. Sockets
// that f opens stay in the namespace wherever they are used later; goroutines
// that f starts are outside. Calls may run at the same time and may nest.
func (n *NS) Do(f func() error) error {
	n.mu.RLock()
	closed := n.closed
	n.mu.RUnlock()
	if closed {
		return fmt.Errorf("network namespace %s: %w", n.name, os.ErrClosed)
	}
	result := make(chan error, 1)
	go offMainThread(func() {
		if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("network namespace %s: setns: %w", n.name, err)
			return
		}
		result <- f()
	})
	return <-result
}

// Cmd is an exec.Cmd whose process starts inside a network namespace.
type Cmd struct {
	*exec.Cmd
	ns *NS
}

// Command prepares a child process that runs inside the namespace. It is
// killed when this process dies or the namespace is closed.
func (n *NS) Command(name string, args ...string) *Cmd {
	c := exec.Command(name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return &Cmd{Cmd: c, ns: n}
}

// Start is exec.Cmd's, inside the namespace.
func (c *Cmd) Start() error {
	c.ns.mu.RLock()
	defer c.ns.mu.RUnlock()
	if c.ns.closed {
		return fmt.Errorf("network namespace %s: start %s: %w", c.ns.name, c.Path, os.ErrClosed)
	}
	result := make(chan error, 1)
	c.ns.calls <- func() { result <- c.Cmd.Start() }
	if err := <-result; err != nil {
		return fmt.Errorf("network namespace %s: start %s: %w", c.ns.name, c.Path, err)
	}
	return nil
}

// Run is exec.Cmd's, inside the namespace.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output is exec.Cmd's, inside the namespace. It leaves Stderr as it is.
func (c *Cmd) Output() ([]byte, error) {
	var out lockedBuffer
	c.Stdout = &out
	err := c.Run()
	return out.b, err
}

// CombinedOutput is exec.Cmd's, inside the namespace.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out lockedBuffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.b, err
}

// lockedBuffer takes both output streams of a process.
type lockedBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (w *lockedBuffer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b = append(w.b, p...)
	return len(p), nil
}

// Close lets the namespace go: the kernel removes it with all its interfaces,
// once nothing else is inside. Children started with Command are killed.
func (n *NS) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	close(n.calls)
	<-n.gone
	if err := unix.Close(n.fd); err != nil {
		return fmt.Errorf("network namespace %s: close: %w", n.name, err)
	}
	return nil
}
