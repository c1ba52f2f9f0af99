package setuponly

import (
	"context"
	"errors"

	"github.com/csig-agent/csig/vendors"
)

// Switch is the configuration of one switch, as far as csig has to do with it. Errors are as
// those of vendors.Driver; every text that they and a Config contain is safe to print.
type Switch interface {
	// Read reads the configuration.
	Read(ctx context.Context) (*Config, error)

	// Write carries an edit out, whole or not at all where the platform has a transaction. An
	// error that is a *RefusedError or a *vendors.PermanentError is the switch's answer: with
	// fewer ports the edit may pass. After an error what the switch has is read back.
	Write(ctx context.Context, e *Edit) error

	// Close ends the session.
	Close() error
}

// Config is what Read found.
type Config struct {
	Identity vendors.Identity
	Ports    []Port // in the order of the switch, names unique
	Record   string // what Edit.Record gave it last; "" none
	Damaged  string // why the record cannot be read, in place of Record; "": it can

	// Trial is why the switch may not keep what was read: a change of csig's or of another
	// client that is not confirmed. "": it does. Nothing is built on a change on trial.
	Trial string
}

// RefusedError is an edit that the switch did not take.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

func refused(err error) bool {
	return errors.As(err, new(*RefusedError)) || vendors.IsPermanent(err)
}

// Port is one port that can have a TPID.
type Port struct {
	Name string
	TPID string // as Platform.Format has it; "": not configured, its default holds
	MTU  int    // bytes without the L2 header, as configured; 0: it is not, the default holds
	Now  int    // bytes of the MTU that holds; 0: the switch does not say

	Refused string // why csig cannot change its TPID, which is not csig's own; "" where it can
	Lost    string // why its TPID, though configured, may not be in force; "": it is
}

// Edit is a change of the configuration.
type Edit struct {
	Ports  []PortEdit
	Record *string // nil: it stays; "": delete it
}

// Empty reports whether nothing changes.
func (e *Edit) Empty() bool { return len(e.Ports) == 0 && e.Record == nil }

// Then is the edit followed by another one, as one.
func (e *Edit) Then(later *Edit) Edit {
	out := Edit{Ports: append([]PortEdit(nil), e.Ports...), Record: e.Record}
	for i := range later.Ports {
		l := &later.Ports[i]
		p := out.port(l.Port)
		if l.TPID != nil {
			p.TPID = l.TPID
		}
		if l.MTU != nil {
			p.MTU = l.MTU
		}
	}
	if later.Record != nil {
		out.Record = later.Record
	}
	return out
}

// PortEdit is a change of one port; what is nil stays. A TPID that is configured already is
// one that the port has lost (Port.Lost).
type PortEdit struct {
	Port string
	TPID *string // "": delete it from the configuration
	MTU  *int    // 0: delete it from the configuration
}

// port is the edit's change of a port, made where there is none yet.
func (e *Edit) port(name string) *PortEdit {
	for i := range e.Ports {
		if e.Ports[i].Port == name {
			return &e.Ports[i]
		}
	}
	e.Ports = append(e.Ports, PortEdit{Port: name})
	return &e.Ports[len(e.Ports)-1]
}

func (c *Config) port(name string) *Port {
	for i := range c.Ports {
		if c.Ports[i].Name == name {
			return &c.Ports[i]
		}
	}
	return nil
}
