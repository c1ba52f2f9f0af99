package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// LockPath is the path of a device's change lock: one operator at a time changes a device.
// PUT takes it, or keeps it; DELETE frees it. Every other request for a change takes it, too.
// Requests without an Operator take none, and are refused while one is held.
const LockPath = "/v1/lock"

// LockTerm is how long an operator keeps the lock after a request for a change.
const LockTerm = 2 * time.Minute

// operatorHeader has the Operator of a request, as JSON.
const operatorHeader = "Csig-Operator"

// Operator is who changes devices, and for what.
type Operator struct {
	Session string    `json:"session"` // of a journal on a machine: csig apply, its --resume and csig rollback are one
	Who     string    `json:"who"`     // USER@HOST
	What    string    `json:"what"`    // the command
	Since   time.Time `json:"since"`   // the command's beginning, which tells it from a later one of the session
	Force   bool      `json:"force"`   // csig off: it ends the lock of any other, and takes none
}

// ErrLocked is a change that another operator's lock refuses.
var ErrLocked = errors.New("another operator is changing the device")

// LockedError says whose.
func LockedError(device string, by *Operator) error {
	return &vendors.PermanentError{Err: fmt.Errorf("%w: %s on %s since %s: wait for its end, or %v after it was killed",
		ErrLocked, by.name(), device, by.Since.UTC().Format(time.RFC3339), LockTerm)}
}

// EndedError says that csig off has ended a lock.
func EndedError(device string, by *Operator) error {
	return &vendors.PermanentError{Err: fmt.Errorf("%w: %s ended this on %s at %s", ErrLocked, by.name(), device, by.Since.UTC().Format(time.RFC3339))}
}

func (op *Operator) name() string {
	return untrusted.Text(op.Who, 100) + " (" + untrusted.Text(op.What, 200) + ")"
}

// maxOperator bounds an Operator as JSON, in bytes.
const maxOperator = 2 << 10

// operatorOf is who sends a request; none where it does not say.
func operatorOf(r *http.Request) (op Operator, err error) {
	text := r.Header.Get(operatorHeader)
	if text == "" {
		return Operator{}, nil
	}
	if len(text) > maxOperator || json.Unmarshal([]byte(text), &op) != nil || op.Session == "" {
		return Operator{}, &vendors.PermanentError{Err: fmt.Errorf("the header %s is not that of csig", operatorHeader)}
	}
	return op, nil
}

// manageLock answers LockPath.
func (s *Server) manageLock(m Manager) {
	s.mux.HandleFunc("PUT "+LockPath, s.change(0, func(*http.Request, []byte) (any, error) { return struct{}{}, nil }))
	s.mux.HandleFunc("DELETE "+LockPath, answer(func(r *http.Request) (any, error) {
		op, err := operatorOf(r)
		if err == nil {
			err = m.Leave(r.Context(), op.Session)
		}
		return struct{}{}, err
	}))
}

// As has every request of this client say who sends it.
func (c *Client) As(op *Operator) { c.operator = op }

// Lock takes the device's change lock for the client's operator, or keeps it. The error wraps
// ErrLocked while another operator has it.
func (c *Client) Lock(ctx context.Context) error { return c.change(ctx, http.MethodPut, LockPath, nil) }

// Unlock frees it, where this client's operator has it.
func (c *Client) Unlock(ctx context.Context) error {
	return c.change(ctx, http.MethodDelete, LockPath, nil)
}

// sign says in a request who sends it.
func (c *Client) sign(r *http.Request) {
	if c.operator == nil {
		return
	}
	text, err := json.Marshal(c.operator) // without control characters
	if err != nil {
		panic(err) // strings, a time and a bool
	}
	r.Header.Set(operatorHeader, string(text))
}
