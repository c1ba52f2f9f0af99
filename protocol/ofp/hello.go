package ofp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// Datapath is what a switch says of itself when it connects (§7.3.1).
type Datapath struct {
	ID           uint64
	Tables       uint8
	Auxiliary    uint8  // not 0: a connection beside the main one (1.3.5 §6.3.6)
	Capabilities uint32 // OFPC_*
}

// helloBitmap is the hello element with the versions that are spoken (§7.5.1).
const helloBitmap = 1

// hello agrees on a version, and asks for the datapath. The switch's first messages
// are read here, before there is a reader.
func (o *Conn) hello(versions []Version) (err error) {
	defer untrusted.Recover(&err)
	ours := uint32(0)
	for _, v := range versions {
		ours |= 1 << v
	}
	o.Version = slices.Max(versions)
	o.next(typeHello)
	o.out = order.AppendUint32(append(o.out, 0, helloBitmap, 0, 8), ours)
	end(o.out, 0)
	if err := o.write(); err != nil {
		return err
	}
	o.Version = 0 // not agreed yet
	for o.Version == 0 {
		m, err := o.read()
		switch {
		case err != nil:
			return err
		case m.typ == typeError:
			return readError(m.body)
		case m.typ == typeHello:
			speaks := theirs(m)
			if o.Version = agree(ours, speaks); o.Version == 0 {
				return o.noVersion(versions, speaks)
			}
		default:
			return errMalformed("no hello")
		}
	}
	o.next(typeFeaturesReq)
	end(o.out, 0)
	if err := o.write(); err != nil {
		return err
	}
	for {
		m, err := o.read()
		switch {
		case err != nil:
			return err
		case m.typ == typeError:
			return readError(m.body)
		case m.typ == typeFeaturesRep && m.xid == o.xid:
			o.Datapath, err = parseDatapath(m.body)
			return err
		case m.typ == typeEchoRequest:
			o.out = append(begin(o.out, o.Version, typeEchoReply, m.xid), m.body...)
			end(o.out, 0)
			if err := o.write(); err != nil {
				return err
			}
		}
		if o.stray += headerLen + len(m.body); o.stray > maxMessage*4 {
			return errMalformed("no features")
		}
	}
}

// write writes what was appended, in place of flush while there is one goroutine.
func (o *Conn) write() error {
	_, err := o.c.Write(o.out)
	o.out = o.out[:0]
	return err
}

// theirs are the versions that the sender of a hello speaks, as bits: those of its
// bitmap, or else the header's and every older one (1.3.5 §6.3.1).
func theirs(m received) uint32 {
	speaks := uint32(1)<<(m.version+1) - 1
	_ = properties(pad(slices.Clone(m.body), 0), "a hello", func(typ uint16, value []byte) error { // other elements are skipped
		if typ == helloBitmap && len(value) >= 4 {
			speaks = order.Uint32(value)
		}
		return nil
	})
	return speaks
}

// agree is the newest version that both speak; 0: none.
func agree(ours, speaks uint32) Version {
	for v := newest; v > 0; v-- {
		if ours&speaks&(1<<v) != 0 {
			return v
		}
	}
	return 0
}

// noVersion says to the switch, and to the caller, that there is no version in common.
func (o *Conn) noVersion(versions []Version, speaks uint32) error {
	var theirs, ours []string
	for v := Version(1); v <= newest; v++ {
		if speaks&(1<<v) != 0 {
			theirs = append(theirs, v.String())
		}
		if slices.Contains(versions, v) {
			ours = append(ours, v.String())
		}
	}
	o.Version = slices.Max(versions)
	o.next(typeError)
	o.out = append(o.out, 0, errHelloFailed, 0, 0)
	end(o.out, 0)
	_ = o.write() // it is told as far as it listens
	return fmt.Errorf("%w: it speaks %s, csig %s", &Error{Type: errHelloFailed}, strings.Join(theirs, ", "), strings.Join(ours, ", "))
}

func parseDatapath(b []byte) (Datapath, error) {
	if len(b) < 24 {
		return Datapath{}, errMalformed("features")
	}
	return Datapath{ID: order.Uint64(b), Tables: b[12], Auxiliary: b[13], Capabilities: order.Uint32(b[16:])}, nil
}
