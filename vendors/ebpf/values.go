package ebpf

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/csig-agent/csig/quantize"
)

// nsBits is how many bit·ns/s a byte is: a rate in bit/s over an interval in ns comes in these.
const nsBits = 8 * int64(time.Second)

// signalOf is how the data plane computes one signal of a port: the compact S by edges that
// the bytes of an interval (or of a queue) reach, the wide S as a quotient. Both are exact.
// rate is the port's capacity in bit/s, for MaxPD the rate at which its queue drains, for
// MaxNQD the queue's limit in bytes.
// Errors: a wide tag's quotient that needs more than 64 bits.
func signalOf(sig quantize.Signal, sp *quantize.SignalProfile, rate uint64, interval time.Duration) (planeSignal, error) {
	g := planeSignal{Carried: 1}
	bounds := sp.Buckets.Bounds()
	r, dt := new(big.Int).SetUint64(rate), big.NewInt(int64(interval))
	for i := range g.Edges {
		g.Edges[i] = math.MaxUint64
	}
	switch sig {
	case quantize.MinABW, quantize.MinABWC:
		// A bucket with the lower bound low is reached where (C·Δt - x·8e9)/Δt >= low, thus
		// x <= (C - low)·Δt/8e9: the edge is one byte more. The value of ABW/C is
		// 1e6 (C·Δt - x·8e9)/(C·Δt), so its low is low·C/1e6 of ABW.
		for i := 1; i < quantize.NumBuckets; i++ {
			low, of := new(big.Int).SetUint64(bounds[i]), big.NewInt(nsBits)
			room := new(big.Int)
			if sig == quantize.MinABWC {
				room.Sub(big.NewInt(1_000_000), low)
				room.Mul(room, r)
				of.Mul(of, big.NewInt(1_000_000))
			} else {
				room.Sub(r, low)
			}
			edge := uint64(0)
			if room.Sign() >= 0 {
				room.Mul(room, dt).Div(room, of)
				if !room.IsUint64() {
					return g, fmt.Errorf("%s: the bytes of %v at %d bit/s do not fit 64 bits", sig, interval, rate)
				}
				edge = room.Uint64() + 1
			}
			g.Edges[quantize.NumBuckets-1-i] = edge
		}
		if sp.Quantum == 0 {
			return g, nil
		}
		a, b := new(big.Int).Mul(r, dt), big.NewInt(nsBits)
		d := new(big.Int).SetUint64(sp.Quantum)
		if sig == quantize.MinABWC {
			d.Mul(d, a) // 1e6 (C·Δt - x·8e9) / (q·C·Δt)
			a.Mul(a, big.NewInt(1_000_000))
			b.Mul(b, big.NewInt(1_000_000))
		} else {
			d.Mul(d, dt)
		}
		return g, g.quotient(a, b, d)
	}
	// MaxPD and MaxNQD: the value is x·up/down.
	g.Max, g.Queue = 1, queueBytes
	up, down := big.NewInt(nsBits), r // ns to drain x at rate
	if sig == quantize.MaxNQD {
		up = big.NewInt(1_000_000) // ppm of the queue's limit
	}
	for i := 1; i < quantize.NumBuckets; i++ {
		// reached from the first x with x·up/down >= low
		edge := new(big.Int).SetUint64(bounds[i])
		edge.Mul(edge, down).Add(edge, new(big.Int).Sub(up, big.NewInt(1))).Div(edge, up)
		if edge.IsUint64() {
			g.Edges[i-1] = edge.Uint64()
		}
	}
	if sp.Quantum == 0 {
		return g, nil
	}
	if err := g.quotient(new(big.Int), up, new(big.Int).Mul(down, new(big.Int).SetUint64(sp.Quantum))); err != nil {
		return g, err
	}
	g.Limit = math.MaxUint64 / g.B
	return g, nil
}

// quotient sets wide S = (a - b·x)/d, for max signals b·x/d, reduced.
func (g *planeSignal) quotient(a, b, d *big.Int) error {
	common := new(big.Int).GCD(nil, nil, a, new(big.Int).GCD(nil, nil, b, d))
	for _, v := range []*big.Int{a, b, d} {
		if v.Div(v, common); !v.IsUint64() {
			return errors.New("the wide tag's value needs more than 64 bits: choose an interval and a quantum that are round numbers")
		}
	}
	g.A, g.B, g.D = a.Uint64(), b.Uint64(), d.Uint64()
	g.Limit = g.A/g.B + 1
	return nil
}

// bucket is the compact S of x, as the data plane finds it.
func (g *planeSignal) bucket(x uint64) uint8 {
	past := uint8(0)
	for past < quantize.NumBuckets-1 && x >= g.Edges[past] {
		past++
	}
	if g.Max != 0 {
		return past
	}
	return quantize.NumBuckets - 1 - past
}
