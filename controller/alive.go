package controller

import (
	"fmt"
	"sync"

	"github.com/csig-agent/csig/agent"
)

// lives are the agents that run.
type lives struct {
	mu sync.Mutex
	of map[string]*agent.Process
}

// begin has an agent among them, until what it returns is called.
func (l *lives) begin(device string, a *agent.Process) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[device] = a
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.of[device] == a {
			delete(l.of, device)
		}
	}
}

// alive reports whether the controller makes progress. One device that hangs is no reason to
// start it again, at which all others would fall back: it has to be every one.
func (l *lives) alive() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.of {
		if a.Alive() {
			return true
		}
	}
	return len(l.of) == 0
}

// line is the controller's state in a few words.
func (l *lives) line() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	hang, wait := 0, 0
	for _, a := range l.of {
		switch {
		case !a.Alive():
			hang++
		case a.Waits():
			wait++
		}
	}
	return fmt.Sprintf("%d agents: %d run, %d wait, %d hang", len(l.of), len(l.of)-wait-hang, wait, hang)
}
