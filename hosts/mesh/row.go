package mesh

import "slices"

// Row is what a host found out about the way to a peer, by one source port and one signal.
type Row struct {
	To     string `json:"to"`
	Port   int    `json:"port"` // number of the source port, from 0
	Signal string `json:"signal"`
	State  string `json:"state"`

	// Of the last tag that arrived, where Read.
	Read  bool   `json:"read"`
	S     uint8  `json:"s"`
	LM    uint16 `json:"lm"`
	AgeNS int64  `json:"age_ns"`

	RTTNS int64 `json:"rtt_ns"` // of the last trial that came back, without tags

	// Since the row before: probes without a tag, and those with one at least one of whose twins arrived.
	Sent       int `json:"sent"`
	Lost       int `json:"lost"`
	Tagged     int `json:"tagged"`
	TaggedLost int `json:"tagged_lost"`

	// What the tagged ones alone suffer: overtaken by a twin that was sent behind, or overtaking one in front;
	// how often the twins themselves changed places; and the median of the extra delay.
	Reordered      int   `json:"reordered"`
	TwinsReordered int   `json:"twins_reordered"`
	ExtraNS        int64 `json:"extra_ns"`
}

// Report is what a host sends its collector, csig.mesh-rows/v1.
type Report struct {
	Format     string `json:"format"`
	Host       string `json:"host"`
	IntervalNS int64  `json:"interval_ns"` // at which it probes its peers: of a slow link longer than the fleet file has it
	Sockets    string `json:"sockets"`     // SocketsPacket and so on; "" of a host that does not say
	Rows       []Row  `json:"rows"`
	Counts     Counts `json:"counts"`
}

// How a host's probes leave, and those of others arrive.
const (
	SocketsPacket   = "packet"   // packet sockets, which need CAP_NET_RAW
	SocketsOrdinary = "ordinary" // UDP's: csig host run inserts and removes tags
	SocketsNone     = "none"     // there is neither: probes have no tags
)

// RowsFormat is the Format of a Report.
const RowsFormat = "csig.mesh-rows/v1"

// mostCounted is how many of a kind a row counts at most.
const mostCounted = 1 << 20

// bad reports whether a row has numbers that no host has counted.
func (r *Row) bad() bool {
	n := []int{r.Sent, r.Lost, r.Tagged, r.TaggedLost, r.Reordered, r.TwinsReordered}
	for _, v := range n {
		if v < 0 || v > mostCounted {
			return true
		}
	}
	return r.Lost > r.Sent || r.TaggedLost > r.Tagged || r.RTTNS < 0 || r.AgeNS < 0 || !slices.Contains(States, r.State)
}
