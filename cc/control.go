package cc

import "github.com/csig-agent/csig/quantize"

// Control is the congestion control of one flow: a state that events change. It keeps neither of its arguments, so that
// callers may use the same ones again.
type Control interface {
	On(e *Event, o *Output)
}

// Receiver is the part that a control has at the receiver, where it has one: it gets each packet of data (Kind Data) before
// its acknowledgement, and may change what that carries: Path, Window and CNP.
type Receiver interface {
	Data(e *Event)
}

// Kind is what happens to a flow.
type Kind uint8

// The kinds of events, and what each has besides Now.
const (
	Began    Kind = iota // a flow that has sent nothing yet
	Sent                 // a packet is about to be made: Seq, Size (of controls that want it: Output.Sent)
	Data                 // a packet has come to the receiver: Seq, Size, Marked, Path, Signal
	Acked                // Acked, Seq, Next, RTT and what the packet and its receiver have written
	Lost                 // a packet, as duplicate acknowledgements or a gap say: Seq, Next
	TimedOut             // nothing was acknowledged for a retransmission time: Seq, Next
	Timer                // the time that the control has asked for is now
)

// Event is what happens to a flow, and what is known by it.
type Event struct {
	Kind   Kind
	Now    int64
	Acked  uint64  // bytes newly acknowledged
	Seq    uint64  // behind the last byte of the packet, or behind all that the receiver has in order
	Next   uint64  // what is sent next
	Size   uint32  // bytes of a packet on the link
	RTT    int64   // of the packet that is acknowledged; 0: not known, as it was sent again
	Marked bool    // ECN: congestion experienced
	CNP    bool    // the receiver notifies of congestion (DCQCN)
	Window float64 // bytes that the receiver allows (receiver-based HPCC++); 0: it says nothing
	Path   []Hop   // telemetry; nil: the packet had none
	Power  uint16  // PINT: the largest utilisation, by EncodePower; 0: none
	Signal Signal
}

// Signal is a CSIG signal as the sender gets it back. S stands for a range: Low and High are its ends.
type Signal struct {
	Valid   bool // a tag came through: one that no port replaced has the locator none
	Type    quantize.Signal
	Low     uint64 // in the signal's unit
	High    uint64
	Locator uint16
	Age     int64 // of the window that it is of, when the packet read it; 0: not known
}

// Output is what a control has its flow do. It stays until the control changes it.
type Output struct {
	Window uint64  // bytes in flight
	Rate   float64 // bit/s; 0: not paced
	Timer  int64   // when to call with Timer, once; 0: never
	Ask    Ask     // what the next packets are to bring back
	Sent   bool    // call with Sent before each packet, which may change Ask for it
}

// Ask is what a packet is to bring back from its path.
type Ask uint8

// What a packet can carry besides AskSignal's.
const (
	AskNothing   Ask = iota
	AskTelemetry     // each hop's
	AskPower         // PINT: the largest utilisation of the hops
	askSignal
)

// AskSignal is a CSIG tag of a type.
func AskSignal(t quantize.Signal) Ask { return askSignal + Ask(t) }

// Signal is the type of the CSIG tag that a packet has; false: none.
func (a Ask) Signal() (quantize.Signal, bool) { return quantize.Signal(a - askSignal), a >= askSignal }
