package gnmi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// What can be wrong with a device, for errors.Is.
var (
	// ErrNoAnswer is a target that cannot be reached, or does not answer in time.
	ErrNoAnswer = errors.New("no answer")
	// ErrCertificate is a TLS handshake that failed, on our side (an x509 error in it says
	// why) or on the target's.
	ErrCertificate = errors.New("TLS handshake failed")
	// ErrCredentials is a target that refused username, password or client
	// certificate.
	ErrCredentials = errors.New("credentials refused")
	// ErrEncoding is a target without an encoding that this package knows.
	ErrEncoding = errors.New("no common encoding")
	// ErrTooLarge is a message that is larger than Config.MaxMessage.
	ErrTooLarge = errors.New("message too large")
	// ErrMissing is what the target does not have.
	ErrMissing = errors.New("the target does not have it")
	// ErrType is a value that the model does not allow.
	ErrType = errors.New("value of the wrong type")
)

// handshake keeps the last failure of a TLS handshake, for which gRPC only passes on
// the text.
type handshake struct {
	mu  sync.Mutex
	err error
}

func (h *handshake) set(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

func (h *handshake) get() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

// classify gives what a call returned one of the errors above.
func (t *Target) classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause // a watchdog's
	}
	st, ok := status.FromError(err)
	if !ok {
		return untrusted.ErrorOf(err, MaxText)
	}
	err = untrusted.ErrorOf(err, MaxText)
	switch st.Code() {
	case codes.Unauthenticated, codes.PermissionDenied:
		return fmt.Errorf("%w: %w", ErrCredentials, err)
	case codes.Unavailable:
		h := t.handshake.get()
		if errors.Is(h, context.DeadlineExceeded) {
			return fmt.Errorf("%w to the TLS handshake: %w", ErrNoAnswer, err)
		}
		if h != nil {
			return fmt.Errorf("%w: %w", ErrCertificate, untrusted.ErrorOf(h, MaxText))
		}
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	case codes.DeadlineExceeded:
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	case codes.ResourceExhausted:
		if strings.Contains(st.Message(), "larger than max") { // gRPC's own words, of either end
			return fmt.Errorf("%w: %w", ErrTooLarge, err)
		}
	}
	return err
}

// Refused reports whether err is the target's answer that it does not do what it was
// asked for, so that asking for something else may help.
func Refused(err error) bool {
	st, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch st.Code() {
	case codes.InvalidArgument, codes.Unimplemented, codes.NotFound, codes.OutOfRange, codes.FailedPrecondition, codes.Unknown:
		return true
	}
	return false
}

// advice returns the next step to take.
func advice(err error) string {
	switch {
	case errors.Is(err, ErrCertificate):
		return "compare the CA file, the server name and both sides' clocks with the target's certificate, and ours with what it asks for"
	case errors.Is(err, ErrCredentials):
		return "compare username, password and client certificate with the device's gNMI users, and let this one read /interfaces"
	case errors.Is(err, ErrNoAnswer):
		return "check the address, that gNMI is enabled on the device, that this host may reach it, and whether it wants TLS or a client certificate"
	case errors.Is(err, ErrTooLarge):
		return "let fewer ports be read, or larger messages be accepted"
	case errors.Is(err, ErrEncoding):
		return "look at what the target's gNMI Capabilities list"
	case errors.Is(err, ErrMissing):
		return "compare the name with the interfaces that the target lists under /interfaces/interface"
	}
	return ""
}

// Error is err as one of this target's: which device, what, and what to do next.
func (t *Target) Error(err error) error {
	return fmt.Errorf("device %s: gNMI target %s: %w", t.cfg.Device, t.cfg.Address, Advised(err))
}

// Advised is err with the next step to take, where there is one.
func Advised(err error) error {
	if next := advice(err); next != "" {
		return fmt.Errorf("%w: %s", err, next)
	}
	return err
}

// Absent reports whether err is the target's answer that it does not have the path.
func Absent(err error) bool { return status.Code(err) == codes.NotFound }
