package ofp

import (
	"bytes"
	"context"
	"math"
	"strconv"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// Port is a port of the switch (1.3.5 and 1.4 §7.2.1).
type Port struct {
	Number uint32
	Name   string // its interface's, of which OpenFlow has 15 bytes; what does not print is escaped
	Up     bool   // neither down by configuration nor without link
	Speed  uint64 // bit/s; 0: unknown
	Modes  bool   // it names rates or media that its link can have, which a virtual device has not
	Shared bool   // another port has this name, or goes by it as its number
	MAC    [6]byte
}

// Label is what fleet files call the port: by its number where it has no name of its own.
func (p *Port) Label() string {
	if p.Name == "" || p.Shared {
		return strconv.FormatUint(uint64(p.Number), 10)
	}
	return p.Name
}

// share finds the ports that share a name: of long ones OpenFlow has the same 15 bytes.
func share(ports []Port) {
	byLabel := make(map[string][]*Port, len(ports))
	var shared []string // labels of several ports
	add := func(p *Port) {
		label := p.Label()
		if byLabel[label] = append(byLabel[label], p); len(byLabel[label]) > 1 {
			shared = append(shared, label)
		}
	}
	for i := range ports {
		add(&ports[i])
	}
	for ; len(shared) > 0; shared = shared[1:] {
		those := byLabel[shared[0]]
		delete(byLabel, shared[0])
		for _, p := range those {
			if !p.Shared && p.Name != "" {
				p.Shared = true
				add(p) // its number may be another's name
			}
		}
	}
}

const (
	portLen       = 40 // of 1.4: properties follow
	portLen13     = 64
	maxName       = 15 * len(`\x00`) // bytes of a name of which nothing prints
	portDown      = 1 << 0           // of config
	linkDown      = 1 << 0           // of state
	ethernetProp  = 0
	ethernetLen   = 32
	bitsPerKilo   = 1000
	currSpeedFrom = 24 // of the property
	currSpeed13   = 56 // of the port
	supportedFrom = 16 // of the property
	supported13   = 48 // of the port

	portStatsLen   = 80 // of 1.4: properties follow
	portStatsLen13 = 112
)

// Ports reads the switch's ports, local ones aside.
func (o *Conn) Ports(ctx context.Context) ([]Port, error) {
	var out []Port
	err := o.multipart(ctx, partPortDesc, nil, func(body []byte) (err error) {
		out, err = parsePorts(out, o.Version, body)
		return err
	})
	share(out)
	return out, err
}

// speeds are bit rates by the bits of a port's features (1.3.5 §7.2.1.2), in Mbit/s.
var speeds = [...]uint64{10, 10, 100, 100, 1000, 1000, 10_000, 40_000, 100_000, 1_000_000}

// speedOf is a port's bit rate: as it is, or else by its current features.
func speedOf(kilobits, features uint32) uint64 {
	if kilobits != 0 {
		return uint64(kilobits) * bitsPerKilo
	}
	most := uint64(0)
	for i, megabits := range speeds {
		if features&(1<<i) != 0 {
			most = max(most, megabits*bitsPerKilo*bitsPerKilo)
		}
	}
	return most
}

func parsePorts(out []Port, v Version, b []byte) ([]Port, error) {
	one := func(b []byte) error {
		p := Port{Number: order.Uint32(b)}
		name, _, _ := bytes.Cut(b[16:32], []byte{0})
		p.Name = untrusted.Text(string(name), maxName)
		p.MAC = [6]byte(b[8:14])
		p.Up = order.Uint32(b[32:])&portDown == 0 && order.Uint32(b[36:])&linkDown == 0
		var err error
		if v < Version14 {
			p.Speed, p.Modes = speedOf(order.Uint32(b[currSpeed13:]), order.Uint32(b[portLen:])), order.Uint32(b[supported13:]) != 0
		} else {
			err = properties(b[portLen:], "a port's property", func(typ uint16, value []byte) error {
				if typ == ethernetProp && len(value) >= ethernetLen-4 {
					p.Speed, p.Modes = speedOf(order.Uint32(value[currSpeedFrom-4:]), order.Uint32(value[4:])), order.Uint32(value[supportedFrom-4:]) != 0
				}
				return nil
			})
		}
		if p.Number < PortMax {
			out = append(out, p)
		}
		return err
	}
	if v < Version14 {
		return out, fixed(b, "a port", portLen13, one)
	}
	err := records(b, "a port", 4, portLen, one)
	return out, err
}

// PortStats is what a port has sent, and frames that it lost, since the switch
// began to count (§7.3.5.6).
type PortStats struct {
	Number             uint32
	Age                uint32 // seconds since the switch has it
	TxPackets, TxBytes uint64 // NotCounted where the switch does not count them
	Dropped, Errors    uint64 // in both directions; 0 where they are not counted
}

// NotCounted is a counter that the switch does not keep (§7.3.5.6).
const NotCounted = math.MaxUint64

// PortStats appends the counters of every port to out.
func (o *Conn) PortStats(ctx context.Context, out []PortStats) ([]PortStats, error) {
	err := o.multipart(ctx, partPortStats, zeros(order.AppendUint32(nil, PortAny), 4), func(body []byte) (err error) {
		out, err = parsePortStats(out, o.Version, body)
		return err
	})
	return out, err
}

func parsePortStats(out []PortStats, v Version, b []byte) ([]PortStats, error) {
	if v < Version14 {
		err := fixed(b, "port statistics", portStatsLen13, func(b []byte) error {
			out = append(out, PortStats{Number: order.Uint32(b), Age: order.Uint32(b[104:]), TxPackets: order.Uint64(b[16:]), TxBytes: order.Uint64(b[32:]),
				Dropped: counted(b[40:]) + counted(b[48:]), Errors: counted(b[56:]) + counted(b[64:])})
			return nil
		})
		return out, err
	}
	err := records(b, "port statistics", 0, portStatsLen, func(b []byte) error {
		out = append(out, PortStats{Number: order.Uint32(b[4:]), Age: order.Uint32(b[8:]), TxPackets: order.Uint64(b[24:]), TxBytes: order.Uint64(b[40:]),
			Dropped: counted(b[48:]) + counted(b[56:]), Errors: counted(b[64:]) + counted(b[72:])})
		return nil
	})
	return out, err
}

// counted is a counter, 0 where it is not kept.
func counted(b []byte) uint64 {
	v := order.Uint64(b)
	if v == NotCounted {
		return 0
	}
	return v
}

// EachPort reads the ports and their statistics, and calls f for each port that has
// any.
func (o *Conn) EachPort(ctx context.Context, f func(*Port, *PortStats)) error {
	ports, err := o.Ports(ctx)
	if err != nil {
		return err
	}
	stats, err := o.PortStats(ctx, nil)
	if err != nil {
		return err
	}
	of := make(map[uint32]*PortStats, len(stats))
	for i := range stats {
		of[stats[i].Number] = &stats[i]
	}
	for i := range ports {
		if st := of[ports[i].Number]; st != nil {
			f(&ports[i], st)
		}
	}
	return nil
}
