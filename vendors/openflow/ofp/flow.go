package ofp

// Flow is one entry of a flow table.
type Flow struct {
	Table       uint8
	Priority    uint16
	Cookie      uint64
	HardTimeout uint16 // seconds after which it goes; 0: never
	Age         uint32 // whole seconds that it has been there; read back only
	Match       Match
	Actions     Actions // carried out at once

	Goto  uint8 // a table that the frame goes on to; read back only
	Goes  bool
	Other bool // it has instructions beside these; read back only
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

// The kinds (§7.3.4.1): Add replaces a flow of the same key, and restarts its
// timeout.
const (
	Add    ModKind = 0 // OFPFC_ADD
	Delete ModKind = 4 // OFPFC_DELETE_STRICT
)

// Mod is a change of one flow, or of one group, which goes with the flows that
// refer to it.
type Mod struct {
	Kind  ModKind
	Flow  *Flow
	Name  string // says in errors what it belongs to, e.g. a port
	Group *Group // in place of Flow
}

// Instruction types (§7.2.4).
const (
	instGoto  = 1
	instApply = 4
)

// appendMod appends a flow_mod (§7.3.4.1).
func appendMod(b []byte, m *Mod, xid uint32) []byte {
	if m.Group != nil {
		return m.Group.appendMod(b, m.Kind, xid)
	}
	start := len(b)
	f := m.Flow
	b = begin(b, typeFlowMod, xid)
	b = order.AppendUint64(b, f.Cookie)
	b = order.AppendUint64(b, 0)
	b = append(b, f.Table, byte(m.Kind))
	b = order.AppendUint16(b, 0)
	b = order.AppendUint16(b, f.HardTimeout)
	b = order.AppendUint16(b, f.Priority)
	b = order.AppendUint32(b, 0xffffffff) // no buffer
	b = order.AppendUint32(b, PortAny)
	b = order.AppendUint32(b, 0xffffffff) // any group
	b = order.AppendUint32(b, 0)          // flags, importance
	b = f.Match.append(b)
	if m.Kind == Add && len(f.Actions) > 0 {
		b = order.AppendUint16(b, instApply)
		b = order.AppendUint16(b, uint16(8+len(f.Actions)))
		b = append(zeros(b, 4), f.Actions...)
	}
	end(b, start)
	return b
}

// parseFlows appends the flows of one multipart body to out.
func parseFlows(out []Flow, b []byte) ([]Flow, error) {
	err := records(b, "flow statistics", 0, 48, func(b []byte) error {
		f := Flow{Table: b[2], Age: order.Uint32(b[4:]), Priority: order.Uint16(b[12:]), HardTimeout: order.Uint16(b[16:]), Cookie: order.Uint64(b[24:])}
		var rest []byte
		var err error
		if f.Match, rest, err = parseMatch(b[48:]); err != nil {
			return err
		}
		err = f.instructions(rest)
		out = append(out, f)
		return err
	})
	return out, err
}

func (f *Flow) instructions(b []byte) error {
	return records(b, "instructions", 2, 8, func(b []byte) error {
		switch order.Uint16(b) {
		case instApply:
			f.Actions = append(Actions(nil), b[8:]...)
		case instGoto:
			f.Goto, f.Goes = b[4], true
		default:
			f.Other = true
		}
		return nil
	})
}
