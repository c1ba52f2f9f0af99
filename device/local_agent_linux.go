package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors"
)

// findLocalAgentIn returns the agent that programs the ports of a network namespace, the
// caller's where the path is ""; nil where there is none.
func findLocalAgentIn(netns string) (*localAgent, error) {
	return inNamespace(netns, func() (*localAgent, error) {
		return findLocalAgent(vendors.AgentLock, filepath.Join(filepath.Dir(api.DefaultSocket()), "lock"), api.DefaultSocket())
	})
}

// findLocalAgent returns the holder of the lock of this network namespace, as lock takes it.
func findLocalAgent(name, file, socket string) (*localAgent, error) {
	lock, err := listenerAt(name)
	if err != nil {
		return nil, nil // an agent listens as soon as it has the lock
	}
	if holder, err := holderOf(name); err != nil {
		return nil, err
	} else if holder != "" { // then the lock is in the file, which does not name its process
		f, err := os.Open(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, err
		}
		defer f.Close()
		at, err := namespaceByte()
		if err != nil {
			return nil, err
		}
		has := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}
		if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &has); err != nil || has.Type == unix.F_UNLCK {
			return nil, err
		}
		return &localAgent{}, nil
	}
	a := &localAgent{pid: int(lock.Pid)}
	if at, err := listenerAt(socket); err == nil {
		a.usual = a.pid != 0 && at.Pid == lock.Pid
	}
	return a, nil
}

// inNamespace runs f in a network namespace, the caller's where the path is "".
func inNamespace[T any](netns string, f func() (T, error)) (out T, err error) {
	if netns == "" {
		return f()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ns, e := os.Open(netns)
		if e != nil {
			err = fmt.Errorf("its network namespace: %w", e)
			return
		}
		defer ns.Close()
		if e := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); e != nil {
			err = fmt.Errorf("enter network namespace %s: %w", netns, e)
			return
		}
		out, err = f()
	}()
	<-done
	return out, err
}

// listenerPID is the process that listens at a unix socket; 0: none, or unknown.
func listenerPID(socket string) int {
	at, err := listenerAt(socket)
	if err != nil {
		return 0
	}
	return int(at.Pid)
}
