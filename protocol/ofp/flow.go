package ofp

import (
	"fmt"
	"time"
)

// Flow is one entry of a flow table. Instructions are carried out in the order of the
// fields, whatever their order on the wire (§5.9).
type Flow struct {
	Table       uint8
	Priority    uint16
	Cookie      uint64
	IdleTimeout uint16 // seconds without a frame after which it goes; 0: never
	HardTimeout uint16 // seconds after which it goes; 0: never
	Flags       uint16 // OFPFF_*
	Age         uint32 // whole seconds that it has been there; read back only
	Packets     uint64 // that it met; read back only; math.MaxUint64: not counted
	Match       Match

	Actions  Actions  // carried out at once (apply_actions)
	Clear    bool     // the action set is emptied (clear_actions)
	Write    Actions  // added to the action set (write_actions)
	Metadata Masked64 // bits of the mask are written for later tables (write_metadata); Mask 0: none
	Goto     uint8    // the table that the frame continues in, where Goes
	Goes     bool
	Other    bool // it has instructions beside these (a meter, an experimenter's); read back only
}

// Seconds is a time as a flow's timeouts have it, rounded up.
func Seconds(d time.Duration) uint16 { return uint16((d + time.Second - 1) / time.Second) }

// Flags of a flow (§7.3.4.1).
const (
	FlagSendRemoved  = 1 << 0 // a message where it expires or is deleted
	FlagCheckOverlap = 1 << 1 // refuse it where another of its priority overlaps
	FlagResetCounts  = 1 << 2
)

// Plain reports whether a flow has no instructions beside Actions and Goto.
func (f *Flow) Plain() bool {
	return !f.Other && !f.Clear && len(f.Write) == 0 && f.Metadata.Mask == 0
}

// SameInstructions reports whether two flows do the same with a frame.
func (f *Flow) SameInstructions(o *Flow) bool {
	return f.Actions.Same(o.Actions) && f.Write.Same(o.Write) && f.Metadata.Mask == o.Metadata.Mask &&
		f.Metadata.Value&f.Metadata.Mask == o.Metadata.Value&o.Metadata.Mask &&
		f.Clear == o.Clear && f.Goes == o.Goes && (!f.Goes || f.Goto == o.Goto) && f.Other == o.Other
}

// Where is the flow's place, for messages.
func (f *Flow) Where() string {
	return fmt.Sprintf("table %d with priority %d and cookie %#x", f.Table, f.Priority, f.Cookie)
}

// Key is what a table tells its flows apart by.
type Key struct {
	Table    uint8
	Priority uint16
	Match    Match
}

// Key is the flow's key.
func (f *Flow) Key() Key { return Key{f.Table, f.Priority, f.Match} }

// ModKind is what a Mod does.
type ModKind uint8

// The kinds (§7.3.4.1, §7.3.4.2). All but ModifyAll and DeleteAll are about the one flow
// of the same key, or the one group of the same ID.
const (
	Add       ModKind = 0 // a flow: replaces one of the same key, and restarts its timeouts; a group: refused where there is one
	ModifyAll ModKind = 1 // as Modify, of flows whose conditions are at least those of the match (OFPFC_MODIFY)
	Modify    ModKind = 2 // instructions of a flow, whose timeouts, cookie and counters stay: none where there is no such flow (OFPFC_MODIFY_STRICT); buckets of a group
	DeleteAll ModKind = 3 // flows whose conditions are at least those of the match; Table may be AllTables (OFPFC_DELETE)
	Delete    ModKind = 4 // OFPFC_DELETE_STRICT; a group goes with the flows that refer to it

	AddOrModify ModKind = 0x80 // of a group, by Open vSwitch only
)

// Mod is a change of one flow, or of one group.
type Mod struct {
	Kind  ModKind
	Flow  *Flow
	Name  string // in errors: what it belongs to, e.g. a port
	Group *Group // in place of Flow

	// CookieMask has Modify, ModifyAll, Delete and DeleteAll leave flows alone whose cookie
	// differs from Flow.Cookie in these bits.
	CookieMask uint64
}

// Instruction types (§7.2.4).
const (
	instGoto     = 1
	instMetadata = 2
	instWrite    = 3
	instApply    = 4
	instClear    = 5
)

// appendMod appends a flow_mod (§7.3.4.1).
func appendMod(b []byte, v Version, m *Mod, xid uint32) []byte {
	if m.Group != nil {
		return m.Group.appendMod(b, v, m.Kind, xid)
	}
	start := len(b)
	f := m.Flow
	b = begin(b, v, typeFlowMod, xid)
	b = order.AppendUint64(b, f.Cookie)
	b = order.AppendUint64(b, m.CookieMask)
	b = append(b, f.Table, byte(m.Kind))
	b = order.AppendUint16(b, f.IdleTimeout)
	b = order.AppendUint16(b, f.HardTimeout)
	b = order.AppendUint16(b, f.Priority)
	b = order.AppendUint32(b, 0xffffffff) // no buffer
	b = order.AppendUint32(b, PortAny)
	b = order.AppendUint32(b, 0xffffffff) // any group
	b = order.AppendUint16(b, f.Flags)
	b = order.AppendUint16(b, 0) // padding in 1.3, importance in 1.4
	b = f.Match.append(b)
	if m.Kind == Add || m.Kind == Modify || m.Kind == ModifyAll {
		b = f.appendInstructions(b)
	}
	end(b, start)
	return b
}

func (f *Flow) appendInstructions(b []byte) []byte {
	list := func(typ uint16, a Actions) {
		b = order.AppendUint16(b, typ)
		b = order.AppendUint16(b, uint16(8+len(a)))
		b = append(zeros(b, 4), a...)
	}
	if len(f.Actions) > 0 {
		list(instApply, f.Actions)
	}
	if f.Clear {
		list(instClear, nil)
	}
	if len(f.Write) > 0 {
		list(instWrite, f.Write)
	}
	if f.Metadata.Mask != 0 {
		b = append(b, 0, instMetadata, 0, 24, 0, 0, 0, 0)
		b = order.AppendUint64(b, f.Metadata.Value)
		b = order.AppendUint64(b, f.Metadata.Mask)
	}
	if f.Goes {
		b = append(b, 0, instGoto, 0, 8, f.Goto, 0, 0, 0)
	}
	return b
}

// eachFlow has take look at the flows of one multipart body.
func eachFlow(b []byte, take func(*Flow) error) error {
	return records(b, "flow statistics", 0, 48, func(b []byte) error {
		f := Flow{Table: b[2], Age: order.Uint32(b[4:]), Priority: order.Uint16(b[12:]), IdleTimeout: order.Uint16(b[14:]), HardTimeout: order.Uint16(b[16:]),
			Flags: order.Uint16(b[18:]), Cookie: order.Uint64(b[24:]), Packets: order.Uint64(b[32:])}
		var rest []byte
		var err error
		if f.Match, rest, err = parseMatch(b[48:]); err != nil {
			return err
		}
		if err := f.instructions(rest); err != nil {
			return err
		}
		return take(&f)
	})
}

func (f *Flow) instructions(b []byte) error {
	return records(b, "instructions", 2, 8, func(b []byte) error {
		switch typ := order.Uint16(b); {
		case typ == instApply:
			f.Actions = append(Actions(nil), b[8:]...)
		case typ == instWrite:
			f.Write = append(Actions(nil), b[8:]...)
		case typ == instClear:
			f.Clear = true
		case typ == instMetadata && len(b) == 24:
			f.Metadata = Masked64{order.Uint64(b[8:]), order.Uint64(b[16:])}
		case typ == instGoto:
			f.Goto, f.Goes = b[4], true
		default:
			f.Other = true
		}
		return nil
	})
}
