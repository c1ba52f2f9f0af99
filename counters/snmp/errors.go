package snmp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"net"
	"syscall"

	"github.com/gosnmp/gosnmp"

	"github.com/csig-agent/csig/counters"
)

// What can be wrong with a device, for errors.Is.
var (
	// ErrNoAnswer is an agent that did not answer any of the tries. Agents do
	// not answer a wrong community either.
	ErrNoAnswer = errors.New("no answer")
	// ErrMalformed is an answer that is not valid SNMP.
	ErrMalformed = errors.New("malformed answer")
	// ErrCredentials is an SNMPv3 agent that refused user, passphrases or
	// security level.
	ErrCredentials = errors.New("credentials refused")
	// ErrNotInTimeWindow is an SNMPv3 agent that keeps refusing its own engine
	// time.
	ErrNotInTimeWindow = errors.New("not in the agent's time window")
	// ErrNoPort is a configured port that the agent does not list.
	ErrNoPort = errors.New("no such port on the device")
	// ErrRenamed is an interface that was renamed under net-snmp, which keeps its old
	// name and no longer counts.
	ErrRenamed = errors.New("renamed while snmpd ran")
	// ErrStill is a 64-bit column that does not count where a 32-bit one does.
	ErrStill = errors.New("stands still")
	// ErrMissing is an instance that the agent does not have, or did not return.
	ErrMissing = errors.New("missing in the agent's answer")
	// ErrType is a value of another type than the MIB says.
	ErrType = errors.New("value of the wrong type")
)

// StatusError is an error-status in an agent's answer (RFC 3416 §3).
type StatusError struct {
	Status int32 // error-status
	Index  int32 // error-index: the binding, from 1, or 0
}

func (e *StatusError) Error() string {
	if e.Status < 0 || e.Status > int32(gosnmp.InconsistentName) {
		return fmt.Sprintf("agent answers error-status %d", e.Status)
	}
	return fmt.Sprintf("agent answers %v", gosnmp.SNMPError(e.Status))
}

// isTooBig reports whether err is the agent's own word for too large a request or answer.
func isTooBig(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && gosnmp.SNMPError(status.Status) == gosnmp.TooBig
}

// advice returns the next step to take.
func advice(err error, version Version) string {
	var status *StatusError
	var late *lateError
	switch {
	case errors.As(err, &late) && late.limit > 0:
		return "make the device's interval longer, name fewer ports, or let the agent take larger messages"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the host is there, but nothing listens at this UDP port: start the SNMP agent, or correct the port"
	case isDNS(err):
		return "correct the device's address, or what resolves it here"
	case errors.Is(err, ErrMalformed):
		return "capture the exchange and compare it with snmpget's"
	case errors.Is(err, ErrNoAnswer) && version == V3:
		return "check the address, that this host may reach the agent's UDP port, and the priv protocol and passphrase (what cannot be decrypted may not be answered)"
	case errors.Is(err, ErrNoAnswer):
		return "check the address, that this host may reach the agent's UDP port, and the community (a wrong one is not answered)"
	case errors.Is(err, ErrCredentials):
		return "compare user, protocols and passphrases with the device's SNMPv3 user"
	case errors.Is(err, ErrNotInTimeWindow):
		return "the device's engine boots or time move: check that its agent is not restarting"
	case errors.Is(err, ErrRenamed):
		return "its counters stand still there: put the new name into the fleet file, or the old one back on the device, and restart snmpd"
	case errors.Is(err, ErrNoPort):
		return "compare the name with ifName in snmpwalk of 1.3.6.1.2.1.31.1.1.1.1"
	case errors.As(err, &status) && (gosnmp.SNMPError(status.Status) == gosnmp.AuthorizationError || gosnmp.SNMPError(status.Status) == gosnmp.NoAccess):
		return "allow this user or community to read 1.3.6.1.2.1 on the device"
	case errors.As(err, &status):
		return "read the same object with snmpget to see what the agent says about it"
	case errors.Is(err, ErrMissing), errors.Is(err, ErrType):
		return "read the port's row with snmpget to see what the agent has"
	}
	return ""
}

func isDNS(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns)
}

// lateError is a reading whose caller gave up before all tries were over.
type lateError struct {
	try   time.Duration
	found int // interfaces, by a survey that the next reading continues; or -1
	limit int // bindings a PDU where the agent answers and takes few; or 0
}

func (e *lateError) Error() string {
	if e.found >= 0 {
		return fmt.Sprintf("%v to all questions about its interfaces before the reading had to end (%d found so far; the next reading continues it)", ErrNoAnswer, e.found)
	}
	if e.limit > 0 {
		return fmt.Sprintf("%v to all requests before the reading had to end (the agent takes %d bindings a PDU)", ErrNoAnswer, e.limit)
	}
	return fmt.Sprintf("%v before the reading had to end (a try waits %v)", ErrNoAnswer, e.try)
}

func (e *lateError) Unwrap() []error {
	errs := []error{ErrNoAnswer, context.DeadlineExceeded}
	if e.found >= 0 {
		errs = append(errs, counters.ErrUnfinished)
	}
	return errs
}

// ended puts the end of ctx into this package's terms, if that is what err is: a deadline
// is an agent that has not answered, and anything else is the caller's own affair.
func (s *Source) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		late := &lateError{try: s.cfg.Timeout, found: -1}
		if s.limit < rowOIDs && s.answers > s.before {
			late.limit = s.limit
		}
		if q := s.inquiry; q != nil && q.moved {
			late.found = len(q.names.rows)
		}
		return late
	}
	return err
}

// deviceError says which device, what, and what to do next.
func (s *Source) deviceError(err error) error {
	return fmt.Errorf("device %s: SNMP agent %s: %w", s.cfg.Device, s.address, s.portError(err))
}

// portError is what to say of err in a port's sample: with what to do next.
func (s *Source) portError(err error) error {
	if next := advice(err, s.cfg.Version); next != "" {
		return fmt.Errorf("%w: %s", err, next)
	}
	return err
}
