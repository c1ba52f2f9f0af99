package ofp

import (
	"context"
	"fmt"
	"slices"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// GroupIndirect is the type of a group with one bucket (§7.3.4.2).
const GroupIndirect = 2

// Group is one entry of the group table.
type Group struct {
	ID      uint32
	Type    uint8
	Buckets []Actions
}

// Same reports whether two groups do the same.
func (g *Group) Same(o *Group) bool {
	return g.ID == o.ID && g.Type == o.Type && slices.EqualFunc(g.Buckets, o.Buckets, Actions.Same)
}

// groupCommands are the commands of a group_mod (§7.3.4.2). Open vSwitch has one of
// its own that adds a group or replaces it (include/openflow/openflow-1.1.h,
// OFPGC11_ADD_OR_MOD).
var groupCommands = map[ModKind]uint16{Add: 0, Modify: 1, Delete: 2, AddOrModify: 0x8000}

// appendMod appends a group_mod.
func (g *Group) appendMod(b []byte, v Version, kind ModKind, xid uint32) []byte {
	start := len(b)
	b = order.AppendUint16(begin(b, v, typeGroupMod, xid), groupCommands[kind])
	b = order.AppendUint32(append(b, g.Type, 0), g.ID)
	if kind != Delete {
		b = g.appendBuckets(b)
	}
	end(b, start)
	return b
}

func (g *Group) appendBuckets(b []byte) []byte {
	for _, a := range g.Buckets {
		b = zeros(order.AppendUint16(b, uint16(16+len(a))), 2)
		b = order.AppendUint32(b, PortAny)
		b = zeros(order.AppendUint32(b, 0xffffffff), 4) // any group
		b = append(b, a...)
	}
	return b
}

// parseGroups appends the groups of one multipart body to out.
func parseGroups(out []Group, b []byte) ([]Group, error) {
	err := records(b, "a group", 0, 8, func(b []byte) error {
		g := Group{Type: b[2], ID: order.Uint32(b[4:])}
		err := records(b[8:], "a bucket", 0, 16, func(b []byte) error {
			g.Buckets = append(g.Buckets, append(Actions(nil), b[16:]...))
			return nil
		})
		out = append(out, g)
		return err
	})
	return out, err
}

// Groups reads the groups of the bridge.
func (o *Conn) Groups(ctx context.Context) ([]Group, error) {
	var out []Group
	buckets := 0
	err := o.multipart(ctx, partGroupDesc, nil, func(body []byte) (err error) {
		before := len(out)
		out, err = parseGroups(out, body)
		for i := range out[before:] {
			buckets += len(out[before+i].Buckets)
		}
		if len(out)+buckets > MaxFlows {
			return fmt.Errorf("%w: of groups and buckets csig takes %d", untrusted.ErrTooLong, MaxFlows)
		}
		return err
	})
	return out, err
}
