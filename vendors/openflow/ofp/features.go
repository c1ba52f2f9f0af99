package ofp

import (
	"bytes"
	"context"
	"fmt"

	"github.com/csig-agent/csig/vendors/untrusted"
)

// Desc is what a switch says of itself (§7.3.5.1). What does not print is escaped.
type Desc struct {
	Maker, Hardware, Software, Serial, Datapath string
}

const (
	descLen   = 256
	serialLen = 32
)

// Desc reads what the switch says of itself.
func (o *Conn) Desc(ctx context.Context) (Desc, error) {
	var d Desc
	err := o.multipart(ctx, partDesc, nil, func(body []byte) (err error) {
		d, err = parseDesc(body)
		return err
	})
	return d, err
}

func parseDesc(b []byte) (Desc, error) {
	if len(b) < 4*descLen+serialLen {
		return Desc{}, errMalformed("a description")
	}
	next := func(n int) string {
		text, _, _ := bytes.Cut(b[:n], []byte{0})
		b = b[n:]
		return untrusted.Text(string(text), descLen)
	}
	return Desc{Maker: next(descLen), Hardware: next(descLen), Software: next(descLen), Serial: next(serialLen), Datapath: next(descLen)}, nil
}

// Table is how many entries a table has (§7.3.5.4).
type Table struct {
	ID              uint8
	Active          uint32
	Lookups, Misses uint64
}

const tableLen = 24

// Tables reads how many entries the tables have.
func (o *Conn) Tables(ctx context.Context) ([]Table, error) {
	var out []Table
	err := o.multipart(ctx, partTable, nil, func(body []byte) (err error) {
		if out, err = parseTables(out, body); len(out) > maxTables {
			return fmt.Errorf("%w: of tables csig takes %d", untrusted.ErrTooLong, maxTables)
		}
		return err
	})
	return out, err
}

func parseTables(out []Table, b []byte) ([]Table, error) {
	err := fixed(b, "table statistics", tableLen, func(b []byte) error {
		t := Table{ID: b[0], Active: order.Uint32(b[4:]), Lookups: order.Uint64(b[8:])}
		if matched := order.Uint64(b[16:]); t.Lookups != NotCounted && matched <= t.Lookups {
			t.Misses = t.Lookups - matched
		}
		out = append(out, t)
		return nil
	})
	return out, err
}

// GroupFeatures is what groups a switch can have (§7.3.5.11), by type (GroupAll to
// GroupFastFailover).
type GroupFeatures struct {
	Types        uint32    // bits
	Capabilities uint32    // OFPGFC_*
	Max          [4]uint32 // groups
	Actions      [4]uint32 // bits of action types
}

const groupFeaturesLen = 40

// GroupFeatures reads what groups the switch can have.
func (o *Conn) GroupFeatures(ctx context.Context) (GroupFeatures, error) {
	var g GroupFeatures
	err := o.multipart(ctx, partGroupFeatures, nil, func(body []byte) (err error) {
		g, err = parseGroupFeatures(body)
		return err
	})
	return g, err
}

func parseGroupFeatures(b []byte) (GroupFeatures, error) {
	if len(b) < groupFeaturesLen {
		return GroupFeatures{}, errMalformed("features of groups")
	}
	g := GroupFeatures{Types: order.Uint32(b), Capabilities: order.Uint32(b[4:])}
	for i := range g.Max {
		g.Max[i], g.Actions[i] = order.Uint32(b[8+4*i:]), order.Uint32(b[24+4*i:])
	}
	return g, nil
}

// Does tells whether groups of a type can be made, and their buckets carry out every one
// of the actions.
func (g *GroupFeatures) Does(typ uint8, actions Actions) bool {
	if int(typ) >= len(g.Max) || g.Types&(1<<typ) == 0 {
		return false
	}
	return g.Actions[typ]&actions.types() == actions.types()
}

// types are the types of actions as bits, those from 32 on aside.
func (a Actions) types() uint32 {
	var all uint32
	_ = a.each(func(typ, _ uint16, _ []byte) {
		if typ < 32 {
			all |= 1 << typ
		}
	})
	return all
}
