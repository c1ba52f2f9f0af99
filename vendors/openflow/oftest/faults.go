package oftest

import (
	"encoding/binary"
	"time"
)

// Faults are what a proxy does beyond passing messages on. With the zero value it
// is a switch of plain OpenFlow 1.3: messages of experimenters and of later
// versions, and their matches, instructions, actions and commands within others,
// are always refused.
type Faults struct {
	// After is called when a change has taken effect on the switch, before the next
	// goes there. Open vSwitch has cached paths beside its tables: a test that looks
	// at frames asks it for revalidator/purge first.
	After func(Message)

	// Reorder shuffles the changes between two barriers; 0: no. Without a barrier
	// behind them they wait for ever.
	Reorder uint64

	// AckToWire is how long after its barrier's answer a change takes effect; with
	// Reorder, at any time until then, before or after changes of before the barrier.
	AckToWire time.Duration

	// RejectLate refuses a change after the barrier behind it was answered; nil lets
	// one through. What is refused is not carried out.
	RejectLate func(Message) *Late

	// Lose loses a change: it is acknowledged and never carried out, without an error. nil lets all through.
	Lose func(Message) bool

	// BarrierDelay is how much later than the switch has answered it the answer to a barrier goes to csig.
	BarrierDelay time.Duration

	// Features changes what the switch says of one table; nil with NoFeatures.
	Features   func(*TableFeatures)
	NoFeatures bool // the request is refused, as an optional one may be

	NoMetadata bool // metadata can be neither matched nor written

	Refuse func(Message) *Refusal // other refusals, at once

	Silent bool // the connection stays, and nothing passes
	Dead   bool // new connections are closed at once
}

// Late is a refusal and how long after the barrier's answer it comes.
type Late struct {
	Refusal
	After time.Duration
}

// refuses is the answer to a message that the switch does not take. OF-DPA looks at
// groups itself.
func (f *Faults) refuses(m Message, ofdpa bool) (Refusal, bool) {
	typ := m.Type()
	switch {
	case typ == TypeHello || typ == TypeError:
		return Refusal{}, false
	case m[0] != Version:
		return BadVersion, true
	case typ == TypeExperimenter:
		return BadExperimenter, true
	case typ > TypeMeterMod:
		return BadType, true
	}
	if f.Refuse != nil {
		if r := f.Refuse(m); r != nil {
			return *r, true
		}
	}
	switch typ {
	case TypeMultipartReq:
		part, _ := m.part()
		switch {
		case part == partExperimenter:
			return BadExperimenter, true
		case part > 13:
			return BadMultipart, true
		case part == partTableFeatures && (f.NoFeatures || ofdpa): // its pattern is in its documents
			return BadMultipart, true
		}
	case TypeFlowMod:
		return f.refusesFlow(m)
	case TypeGroupMod:
		return refusesGroup(m, ofdpa)
	}
	return Refusal{}, false
}

// Fields of OXM (§7.2.3.7).
const (
	classBasic = 0x8000

	FieldMetadata = 2
	FieldVLANVID  = 6
	FieldVLANPCP  = 7

	lastField = 39
)

// field is one of OXM: its header and its value, with the mask behind it.
type field struct {
	class  uint16
	id     uint8
	masked bool
	value  []byte
}

// fields reads the fields of a match or of table features; false where they are
// malformed. Those of table features have no values.
func fields(b []byte, values bool) (out []field, ok bool) {
	for len(b) > 0 {
		if len(b) < 4 {
			return nil, false
		}
		f, n := field{class: order.Uint16(b), id: b[2] >> 1, masked: b[2]&1 != 0}, 4
		if values {
			if n += int(b[3]); len(b) < n {
				return nil, false
			}
			f.value = b[4:n]
		}
		out, b = append(out, f), b[n:]
	}
	return out, true
}

// match splits a match from what follows it.
func match(b []byte) (in []field, rest []byte, ok bool) {
	if len(b) < 8 || order.Uint16(b) != 1 {
		return nil, nil, false
	}
	n := int(order.Uint16(b[2:]))
	padded := (n + 7) / 8 * 8
	if n < 4 || padded > len(b) {
		return nil, nil, false
	}
	in, ok = fields(b[4:n], true)
	return in, b[padded:], ok
}

// records are what b is made of, each with its length in 16 bits at lengthAt.
func records(b []byte, lengthAt, least int) (out [][]byte, ok bool) {
	for len(b) > 0 {
		if len(b) < least {
			return nil, false
		}
		n := int(binary.BigEndian.Uint16(b[lengthAt:]))
		if n < least || n > len(b) {
			return nil, false
		}
		out, b = append(out, b[:n]), b[n:]
	}
	return out, true
}

func (f *Faults) refusesFlow(m Message) (Refusal, bool) {
	if len(m) < 56 {
		return badLen, true
	}
	in, rest, ok := match(m[48:])
	if !ok {
		return badMatchType, true
	}
	for _, x := range in {
		if x.class != classBasic || x.id > lastField || f.NoMetadata && x.id == FieldMetadata {
			return badMatchField, true
		}
	}
	instructions, ok := records(rest, 2, 8)
	if !ok {
		return badLen, true
	}
	for _, i := range instructions {
		switch typ := order.Uint16(i); {
		case typ == 0xffff:
			return badInstrVendor, true
		case typ == 0 || typ > 6:
			return badInstruction, true
		case typ == 2 && f.NoMetadata:
			return unsupMetadata, true
		case typ == 3 || typ == 4: // write-actions, apply-actions
			if r, bad := refusesActions(i[8:]); bad {
				return r, true
			}
		}
	}
	return Refusal{}, false
}

func refusesGroup(m Message, ofdpa bool) (Refusal, bool) {
	if len(m) < 16 {
		return badLen, true
	}
	if order.Uint16(m[8:]) > 2 {
		return badGroupCommand, true
	}
	buckets, ok := records(m[16:], 0, 16)
	if !ok {
		return badLen, true
	}
	for _, b := range buckets {
		if r, bad := refusesActions(b[16:]); bad && !ofdpa {
			return r, true
		}
	}
	return Refusal{}, false
}

// refusesActions lets the actions of OpenFlow 1.3 pass (§7.2.5).
func refusesActions(b []byte) (Refusal, bool) {
	actions, ok := records(b, 2, 8)
	if !ok {
		return badLen, true
	}
	for _, a := range actions {
		switch typ := order.Uint16(a); {
		case typ == 0xffff:
			return badActionVendor, true
		case typ > 27:
			return badActionType, true
		case typ == 25: // set-field
			if order.Uint16(a[4:]) != classBasic || a[6]>>1 > lastField {
				return badActionType, true
			}
		}
	}
	return Refusal{}, false
}
