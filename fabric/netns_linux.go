package fabric

import (
	"bytes"
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

	mu       sync.RWMutex // guards closed
	closed   bool
	closing  chan struct{}
	children sync.WaitGroup // threads that started them
}

// NewNS makes a network namespace with its loopback up. The name is for
// messages only.
func NewNS(name string) (*NS, error) {
	n := &NS{name: name, closing: make(chan struct{})}
	made := make(chan error, 1)
	go offMainThread(func() { made <- n.unshare() })
	if err := <-made; err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", name, err)
	}
	return n, nil
}

// unshare makes the namespace, and moves the thread there.
func (n *NS) unshare() (err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare (run as root, or after fabric.Enter): %w", err)
	}
	if n.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open /proc/thread-self/ns/net: %w", err)
	}
	if err := quiet(); err != nil {
		return errors.Join(err, unix.Close(n.fd))
	}
	return nil
}

// quiet brings the loopback up and IPv6 off in the namespace of the thread.
func quiet() error {
	for _, which := range []string{"all", "default"} {
		file := "/proc/sys/net/ipv6/conf/" + which + "/disable_ipv6"
		if err := os.WriteFile(file, []byte("1\n"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("switch IPv6 off, so that only wanted frames are on the links: %w", err)
		}
	}
	return loopbackUp()
}

func loopbackUp() error {
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
	go offMainThread(func() { result <- n.inside(f) })
	return <-result
}

// inside moves the thread into the namespace and runs f.
func (n *NS) inside(f func() error) error {
	if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("network namespace %s: setns: %w", n.name, err)
	}
	return f()
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

// Start is exec.Cmd's, inside the namespace. The thread that started the process stays
// until the namespace is closed: the kernel kills the process with it.
func (c *Cmd) Start() error {
	c.ns.mu.RLock()
	defer c.ns.mu.RUnlock()
	if c.ns.closed {
		return fmt.Errorf("network namespace %s: start %s: %w", c.ns.name, c.Path, os.ErrClosed)
	}
	result := make(chan error, 1)
	c.ns.children.Go(func() {
		offMainThread(func() {
			err := c.ns.inside(c.Cmd.Start)
			if result <- err; err == nil {
				<-c.ns.closing
			}
		})
	})
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

// Output is exec.Cmd's, inside the namespace: the embedded one would start the process
// outside. It leaves Stderr as it is.
func (c *Cmd) Output() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout = &out
	err := c.Run()
	return out.Bytes(), err
}

// CombinedOutput is exec.Cmd's, inside the namespace.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out // the same one: exec copies to it in one goroutine
	err := c.Run()
	return out.Bytes(), err
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
	close(n.closing)
	n.children.Wait()
	if err := unix.Close(n.fd); err != nil {
		return fmt.Errorf("network namespace %s: close: %w", n.name, err)
	}
	return nil
}
