package device

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/vendors"
	"github.com/csig-agent/csig/vendors/linux/netdev"
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
	h, err := netdev.AgentOf(name, file)
	if h == nil {
		return nil, err
	}
	a := &localAgent{pid: h.PID}
	if at, err := netdev.Listener(socket); err == nil {
		a.usual = a.pid != 0 && at.PID == a.pid
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
	at, err := netdev.Listener(socket)
	if err != nil {
		return 0
	}
	return at.PID
}
