package ofp

import (
	"bytes"
	"context"
	"math"

	"github.com/csig-agent/csig/vendors/untrusted"
)

// Port is a port of the bridge (§7.2.1.1).
type Port struct {
	Number uint32
	Name   string // its interface's, of which OpenFlow has 15 bytes; what does not print is escaped
	Up     bool   // neither down by configuration nor without link
	Speed  uint64 // bit/s; 0: unknown
}

const (
	portLen       = 40
	maxName       = 15 * len(`\x00`) // bytes of a name of which nothing prints
	portDown      = 1 << 0           // of config
	linkDown      = 1 << 0           // of state
	ethernetProp  = 0
	ethernetLen   = 32
	bitsPerKilo   = 1000
	portStatsLen  = 80
	currSpeedFrom = 24
)

// Ports reads the bridge's ports, local ones aside.
func (o *Conn) Ports(ctx context.Context) ([]Port, error) {
	var out []Port
	err := o.multipart(ctx, partPortDesc, nil, func(body []byte) (err error) {
		out, err = parsePorts(out, body)
		return err
	})
	return out, err
}

func parsePorts(out []Port, b []byte) ([]Port, error) {
	err := records(b, "a port", 4, portLen, func(b []byte) error {
		p := Port{Number: order.Uint32(b)}
		name, _, _ := bytes.Cut(b[16:32], []byte{0})
		p.Name = untrusted.Text(string(name), maxName)
		p.Up = order.Uint32(b[32:])&portDown == 0 && order.Uint32(b[36:])&linkDown == 0
		for props := b[portLen:]; len(props) > 0; {
			if len(props) < 4 {
				return errMalformed("a port's property")
			}
			k := (int(order.Uint16(props[2:])) + 7) / 8 * 8 // with what pads it
			if k < 8 || k > len(props) {
				return errMalformed("a port's property")
			}
			if order.Uint16(props) == ethernetProp && k >= ethernetLen {
				p.Speed = uint64(order.Uint32(props[currSpeedFrom:])) * bitsPerKilo
			}
			props = props[k:]
		}
		if p.Number < PortMax {
			out = append(out, p)
		}
		return nil
	})
	return out, err
}

// PortStats is what a port has sent, and frames that it lost, since the switch
// began to count (§7.3.5.6). What it does not count is 0.
type PortStats struct {
	Number             uint32
	Age                uint32 // seconds since the bridge has it
	TxPackets, TxBytes uint64
	Dropped, Errors    uint64 // in both directions
}

// PortStats appends the counters of every port to out.
func (o *Conn) PortStats(ctx context.Context, out []PortStats) ([]PortStats, error) {
	err := o.multipart(ctx, partPortStats, zeros(order.AppendUint32(nil, PortAny), 4), func(body []byte) (err error) {
		out, err = parsePortStats(out, body)
		return err
	})
	return out, err
}

func parsePortStats(out []PortStats, b []byte) ([]PortStats, error) {
	err := records(b, "port statistics", 0, portStatsLen, func(b []byte) error {
		out = append(out, PortStats{Number: order.Uint32(b[4:]), Age: order.Uint32(b[8:]), TxPackets: order.Uint64(b[24:]), TxBytes: order.Uint64(b[40:]),
			Dropped: counted(b[48:]) + counted(b[56:]), Errors: counted(b[64:]) + counted(b[72:])})
		return nil
	})
	return out, err
}

// counted is a counter; one with all bits set is not kept (§7.3.5.6).
func counted(b []byte) uint64 {
	v := order.Uint64(b)
	if v == math.MaxUint64 {
		return 0
	}
	return v
}
