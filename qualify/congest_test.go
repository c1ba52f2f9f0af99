package qualify

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a port that sends so many bytes in each moment, with two queues.
type slow struct {
	first func(f []byte) bool // goes in front of others; nil: none
	marks func(f []byte) bool // ECN is marked, where many wait; nil: never

	came chan struct{} // has one when a frame came

	mu     sync.Mutex
	queues [2][][]byte
}

const (
	slowly  = 100 * time.Microsecond
	waiting = 20 // frames, from which on ECN is marked
)

// treat queues what leaves port 1.
func (q *slow) treat(_, to int, f []byte) []byte {
	if to != 1 {
		return f
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	at := inner(f)
	if q.marks != nil && q.marks(f) && isIP(f) && f[at+1]&3 != 0 && len(q.queues[1]) > waiting {
		f[at+1] |= ce
		sumIP(f[at:])
	}
	if q.first != nil && q.first(f) {
		q.queues[0] = append(q.queues[0], f)
	} else {
		q.queues[1] = append(q.queues[1], f)
	}
	select {
	case q.came <- struct{}{}:
	default:
	}
	return nil
}

// next is what leaves next; nil: nothing waits.
func (q *slow) next() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, list := range q.queues {
		if len(list) > 0 {
			q.queues[i] = list[1:]
			return list[0]
		}
	}
	return nil
}

// drain sends until the test ends.
func (q *slow) drain(t *testing.T, to chan<- []byte) {
	stop := make(chan struct{})
	q.came = make(chan struct{}, 1)
	var running sync.WaitGroup
	running.Go(func() {
		var later <-chan time.Time // when the next ones leave; nil: none waits
		for {
			select {
			case <-stop:
				return
			case <-q.came:
				if later == nil {
					later = time.After(slowly)
				}
				continue
			case <-later:
				later = nil
			}
			for bytes := congesting; later == nil; {
				f := q.next()
				if f == nil {
					break
				}
				to <- f
				if bytes -= len(f); bytes <= 0 {
					later = time.After(slowly)
				}
			}
		}
	})
	t.Cleanup(func() { close(stop); running.Wait() })
}

func isIP(f []byte) bool { return binary.BigEndian.Uint16(f[inner(f)-2:]) == ipv4 }

// TestCongestion: what a slow port does with frames with tags.
func TestCongestion(t *testing.T) {
	all := func([]byte) bool { return true }
	plain := func(f []byte) bool { return !hasTag(f) }
	expedites := func(when func(f []byte) bool) func(f []byte) bool {
		return func(f []byte) bool { return when(f) && isIP(f) && f[inner(f)+1]>>2 == 46 }
	}
	for _, tc := range []struct {
		name, id string
		q        *slow // nil: no slow port
		outcome  Outcome
		want     string // code of the fault, or a part of what was found
	}{
		{"no slow port", "ecn", nil, NotTested, "limit p2 to 5 to 20 Mbit/s"},
		{"no marks", "ecn", &slow{}, NotTested, "have it mark ECN"},
		{"marks", "ecn", &slow{marks: all}, Pass, "are marked CE without the tag"},
		{"marks without the tag alone", "ecn", &slow{marks: plain}, Fail, "ecn-not-marked"},
		{"no slow port", "queue", nil, NotTested, "limit p2 to 5 to 20 Mbit/s"},
		{"no priority", "queue", &slow{}, NotTested, "no priority is seen without the tag"},
		{"priority by DSCP", "queue", &slow{first: expedites(all)}, Pass, "DSCP 46 overtakes"},
		{"priority by PCP of VLANs", "queue", &slow{first: func(f []byte) bool { return f[12] == 0x81 && f[14]>>5 == 5 }}, Pass, "T chooses no queue"},
		{"priority by DSCP without the tag alone", "queue", &slow{first: expedites(plain)}, Fail, "queue-ignores-dscp"},
		{"priority by PCP of the tag", "queue", &slow{first: func(f []byte) bool { return expedites(all)(f) || hasTag(f) && f[14]>>5 == 5 }}, Fail, "queue-by-pcp"},
		{"priority of tags", "queue", &slow{first: func(f []byte) bool { return expedites(all)(f) || hasTag(f) }}, Fail, "queue-differs"},
	} {
		t.Run(tc.id+": "+tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &soft{}
				b := softBench(t, 2, s)
				b.Patience = 5 * time.Second // for what waits
				if tc.q != nil {
					s.treat = tc.q.treat
					tc.q.drain(t, s.ports[1].frames)
				}
				judged(t, b, tc.id, tc.outcome, tc.want)
			})
		})
	}
}

// judged wants one experiment to end so: with the fault want, or with it as a part of what was found.
func judged(t *testing.T, b *Bench, id string, outcome Outcome, want string) *Report {
	t.Helper()
	r, err := Run(t.Context(), b, options(t, slices.DeleteFunc(Forwarding(), func(e Experiment) bool { return e.ID != id })...))
	if err != nil {
		t.Fatal(err)
	}
	res := r.Result(id)
	if res.Outcome != outcome || outcome == Fail && !slices.ContainsFunc(res.Faults, func(f Fault) bool { return f.Code == want }) || outcome != Fail && !strings.Contains(res.Found, want) {
		t.Errorf("%s: %s %+v %v; want %s: %s", res.Outcome, res.Found, res.Faults, res.Numbers, outcome, want)
	}
	return r
}

// datagram is one of sFlow, with the header of a frame, in a sample of a format.
func datagram(format uint32, header []byte) []byte {
	words := func(list ...uint32) (b []byte) {
		for _, w := range list {
			b = binary.BigEndian.AppendUint32(b, w)
		}
		return b
	}
	opaque := func(b []byte) []byte {
		return append(append(words(uint32(len(b))), b...), make([]byte, -len(b)&3)...)
	}
	fields := map[uint32]int{flowSample: 7, flowExpanded: 10}[format]
	record := append(words(ethernetFrame, uint32(len(header)), 4), opaque(header)...)
	sample := append(words(make([]uint32, fields)...), words(2, 1001)...) // of a switch, before the header
	sample = append(append(append(sample, opaque(words(1, 2, 3, 4))...), words(rawHeader)...), opaque(record)...)
	out := words(sflowVersion, 1, 0x7f000001, 0, 1, 1000, 2, 2) // of counters, before it
	return append(append(append(out, opaque(words(9, 9))...), words(format)...), opaque(sample)...)
}

// datagrams is where datagrams are read that the other end of a pipe writes.
type datagrams struct{ net.Conn }

func (d datagrams) ReadFrom(b []byte) (int, net.Addr, error) {
	n, err := d.Read(b)
	return n, d.RemoteAddr(), err
}

func (d datagrams) WriteTo([]byte, net.Addr) (int, error) { return 0, errors.ErrUnsupported }

// TestSFlow: what a switch's samples show of the tag.
func TestSFlow(t *testing.T) {
	few := 0 // samples of tags
	for _, tc := range []struct {
		name    string
		format  uint32
		sample  func(f []byte) []byte // nil: of a switch that drops tags
		outcome Outcome
		want    string
	}{
		{"samples", flowSample, func(f []byte) []byte { return f }, Pass, "samples of frames with the tag have it"},
		{"expanded samples of 64 bytes", flowExpanded, func(f []byte) []byte { return f[:64] }, Pass, "samples of frames with the tag have it"},
		{"without the tag", flowSample, func(f []byte) []byte {
			if hasTag(f) {
				return slices.Delete(slices.Clone(f), 12, 16)
			}
			return f
		}, Fail, "sflow-tag-missing"},
		{"altered", flowSample, func(f []byte) []byte {
			if hasTag(f) {
				f = slices.Clone(f)
				f[14] ^= 1
			}
			return f
		}, Fail, "sflow-altered"},
		{"none of tags", flowSample, func(f []byte) []byte {
			if hasTag(f) {
				return nil
			}
			return f
		}, Fail, "sflow-lost"},
		{"few of tags", flowSample, func(f []byte) []byte {
			if hasTag(f) {
				if few++; few%20 > 0 {
					return nil
				}
			}
			return f
		}, Fail, "sflow-lost"},
		{"the tag does not pass", flowSample, nil, NotTested, "no frame with the tag arrives"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				agent, at := net.Pipe()
				t.Cleanup(func() { agent.Close(); at.Close() })
				s, n := &soft{}, 0
				b := softBench(t, 2, s)
				b.SFlow = datagrams{at}
				s.treat = func(from, to int, f []byte) []byte {
					if tc.sample == nil && hasTag(f) {
						return nil
					}
					if n++; tc.sample != nil && n%7 == 0 && from == 0 && to == 1 {
						if header := tc.sample(f); header != nil {
							_ = agent.SetWriteDeadline(time.Now().Add(time.Millisecond)) // one that nobody takes is lost, as of UDP
							if _, err := agent.Write(datagram(tc.format, header)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
								t.Error(err)
							}
						}
					}
					return f
				}
				judged(t, b, "sflow", tc.outcome, tc.want)
			})
		})
	}
	t.Run("no collector", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { judged(t, softBench(t, 2, &soft{}), "sflow", NotTested, "--sflow ADDRESS:6343") })
	})
}

// FuzzSFlow has datagrams that are none.
func FuzzSFlow(f *testing.F) {
	f.Add(datagram(flowSample, make([]byte, 64)))
	f.Add(datagram(flowExpanded, make([]byte, 61)))
	f.Fuzz(func(t *testing.T, d []byte) {
		total := 0
		sampledHeaders(d, func(header []byte) { total += len(header) })
		if total > len(d) {
			t.Errorf("headers of %d bytes in %d", total, len(d))
		}
	})
}
