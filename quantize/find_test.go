package quantize

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var testTPIDs = TPIDs{Compact: 0x9900, Wide: 0x9901}

// frameOf builds a frame from the 16-bit words behind the two addresses.
func frameOf(words ...uint16) []byte {
	frame := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}
	for _, w := range words {
		frame = append(frame, byte(w>>8), byte(w))
	}
	return frame
}

func TestFindTag(t *testing.T) {
	qinq := TPIDs{Compact: 0x88a8}
	for _, c := range []struct {
		name  string
		tpids TPIDs
		frame []byte
		want  Position
		err   error
	}{
		{"compact", testTPIDs, frameOf(0x9900, 0x2385, 0x0800), Position{12, false, 0, 16}, nil},
		{"wide", testTPIDs, frameOf(0x9901, 1, 2, 3, 0x0800), Position{12, true, 0, 20}, nil},
		{"802.1Q", testTPIDs, frameOf(0x8100, 5, 0x9900, 0x2385, 0x0800), Position{16, false, 1, 20}, nil},
		{"802.1ad", testTPIDs, frameOf(0x88a8, 5, 0x8100, 5, 0x9900, 1, 0x0800), Position{20, false, 2, 24}, nil},
		{"802.1ad, wide", testTPIDs, frameOf(0x88a8, 5, 0x8100, 5, 0x9901, 1, 2, 3, 0x86dd), Position{20, true, 2, 28}, nil},
		{"three tags", testTPIDs, frameOf(0x88a8, 5, 0x88a8, 5, 0x8100, 5, 0x9900, 1, 0x0800), Position{24, false, 3, 28}, nil},
		{"four tags", testTPIDs, frameOf(0x8100, 5, 0x8100, 5, 0x88a8, 5, 0x8100, 5, 0x9900, 1, 0x0800), Position{28, false, 4, 32}, nil},
		{"802.3 length behind", testTPIDs, frameOf(0x9900, 1, 46), Position{12, false, 0, 16}, nil},
		{"CSIG with the TPID 0x88a8", qinq, frameOf(0x88a8, 5, 0x0800), Position{12, false, 0, 16}, nil},
		{"the same behind a VLAN tag", qinq, frameOf(0x8100, 5, 0x88a8, 5, 0x0800), Position{16, false, 1, 20}, nil},

		{"untagged", testTPIDs, frameOf(0x0800), Position{12, false, 0, 12}, ErrNoTag},
		{"only a VLAN tag", testTPIDs, frameOf(0x8100, 5, 0x0800), Position{16, false, 1, 16}, ErrNoTag},
		{"TPID in the payload", testTPIDs, frameOf(0x0800, 0x9900, 1, 0x0800), Position{12, false, 0, 12}, ErrNoTag},
		{"TPID in a TCI", testTPIDs, frameOf(0x8100, 0x9900, 0x0800), Position{16, false, 1, 16}, ErrNoTag},
		{"MACsec", testTPIDs, frameOf(0x88e5, 0, 0, 0, 0x9900, 1, 0x0800), Position{12, false, 0, 12}, ErrNoTag},
		{"ethertype 0, no wide TPID", TPIDs{Compact: 0x9900}, frameOf(0, 0, 0, 0, 0), Position{12, false, 0, 12}, ErrNoTag},
		{"five VLAN tags", testTPIDs, frameOf(0x8100, 5, 0x8100, 5, 0x8100, 5, 0x8100, 5, 0x8100, 5, 0x9900, 1, 0x0800), Position{28, false, 4, 28}, ErrTooDeep},
		{"VLAN tag behind", testTPIDs, frameOf(0x9900, 1, 0x8100, 5, 0x0800), Position{12, false, 0, 16}, ErrNotLast},
		{"service tag behind", testTPIDs, frameOf(0x9900, 1, 0x88a8, 5, 0x0800), Position{12, false, 0, 16}, ErrNotLast},
		{"customer tag behind the TPID 0x88a8", qinq, frameOf(0x88a8, 5, 0x8100, 5, 0x0800), Position{12, false, 0, 16}, ErrNotLast},
		{"two CSIG tags", testTPIDs, frameOf(0x9900, 1, 0x9900, 1, 0x0800), Position{12, false, 0, 16}, ErrNotLast},
		{"two CSIG tags, wide first", testTPIDs, frameOf(0x9901, 1, 2, 3, 0x9900, 1, 0x0800), Position{12, true, 0, 20}, ErrNotLast},
		{"two CSIG tags, wide second", testTPIDs, frameOf(0x9900, 1, 0x9901, 1, 2, 3, 0x0800), Position{12, false, 0, 16}, ErrNotLast},
		{"no ethertype behind", testTPIDs, frameOf(0x9900, 1), Position{12, false, 0, 16}, ErrTruncated},
		{"wide tag cut", testTPIDs, frameOf(0x9901, 1, 2), Position{12, true, 0, 20}, ErrTruncated},
		{"VLAN tag cut", testTPIDs, frameOf(0x8100), Position{16, false, 1, 16}, ErrTruncated},
		{"one byte of an ethertype", testTPIDs, frameOf(0x0800)[:13], Position{12, false, 0, 12}, ErrTruncated},
		{"empty", testTPIDs, nil, Position{12, false, 0, 12}, ErrTruncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := FindTag(c.frame, c.tpids)
			if !errors.Is(err, c.err) || got != c.want {
				t.Errorf("FindTag = %+v, %v, want %+v, %v", got, err, c.want, c.err)
			}
		})
	}
}

// Whatever a sender inserts is found where it was put, and taken out again
// leaves the frame as it was.
func TestInsertFindRemove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var words []uint16
		vlans := rapid.IntRange(0, MaxVLANs).Draw(t, "vlans")
		for range vlans {
			words = append(words, rapid.SampledFrom([]uint16{0x8100, 0x88a8}).Draw(t, "vlan tpid"), rapid.Uint16().Draw(t, "tci"))
		}
		words = append(words, rapid.SampledFrom([]uint16{0x0800, 0x86dd, 0x0806, 46, 0xffff}).Draw(t, "ethertype"))
		payload := rapid.SliceOf(rapid.Byte()).Draw(t, "payload")
		frame := append(frameOf(words...), payload...)

		tag := Tag{Wide: rapid.Bool().Draw(t, "wide"), T: Signal(rapid.IntRange(0, 7).Draw(t, "T")), S: rapid.Uint32Range(0, 31).Draw(t, "S"), LM: rapid.Uint16Range(0, 63).Draw(t, "LM")}
		tag.TPID = testTPIDs.Compact
		if tag.Wide {
			tag.TPID = testTPIDs.Wide
		}
		l := rapid.SampledFrom([]Layout{Draft00, UEC}).Draw(t, "layout")

		tagged, err := Insert(frame, testTPIDs, l, tag)
		if err != nil {
			t.Fatal(err)
		}
		got, p, err := ReadTag(tagged, testTPIDs, l)
		if err != nil || got != tag || p.VLANs != vlans || p.Offset != 12+4*vlans || len(tagged) != len(frame)+tag.Size() {
			t.Fatalf("inserted %+v behind %d VLAN tags, read %+v at %+v, %v", tag, vlans, got, p, err)
		}
		if _, err := Insert(tagged, testTPIDs, l, tag); err == nil {
			t.Fatal("a second tag was inserted")
		}
		back, err := Remove(tagged, testTPIDs)
		if err != nil || !bytes.Equal(back, frame) {
			t.Fatalf("% x became % x, %v", frame, back, err)
		}
	})
}

func TestInsertAndRemoveRefuse(t *testing.T) {
	plain := frameOf(0x0800, 1, 2)
	for _, c := range []struct {
		name  string
		frame []byte
		tpids TPIDs
		tag   Tag
		want  string
	}{
		{"foreign TPID", plain, testTPIDs, Tag{TPID: 0x9902}, "the domain's is 0x9900"},
		{"wide where the domain has none", plain, TPIDs{Compact: 0x9900}, Tag{Wide: true}, "wide tag"},
		{"value that does not fit", plain, testTPIDs, Tag{TPID: 0x9900, S: 32}, "S=32"},
		{"short frame", plain[:13], testTPIDs, Tag{TPID: 0x9900}, ErrTruncated.Error()},
		{"other format there", frameOf(0x9901, 1, 2, 3, 0x0800), testTPIDs, Tag{TPID: 0x9900}, "already has one at offset 12"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := Insert(c.frame, c.tpids, Draft00, c.tag)
			if out != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Insert = % x, %v, want an error with %q", out, err, c.want)
			}
		})
	}
	if _, err := Remove(plain, testTPIDs); !errors.Is(err, ErrNoTag) {
		t.Errorf("Remove of an untagged frame: %v", err)
	}
}

func TestTPIDsValidate(t *testing.T) {
	for _, c := range []struct {
		name  string
		tpids TPIDs
		want  string // "" is valid
	}{
		{"the usual one", TPIDs{Compact: 0x9900}, ""},
		{"both formats", TPIDs{0x9900, 0x9901}, ""},
		{"0x88a8 may be free", TPIDs{Compact: 0x88a8}, ""},
		{"lowest ethertype", TPIDs{Compact: 0x0600}, ""},
		{"none", TPIDs{}, "tpid: 0x0000 is below 0x0600"},
		{"a length", TPIDs{Compact: 0x05ff}, "tpid: 0x05ff is below 0x0600"},
		{"802.1Q", TPIDs{Compact: 0x8100}, "tpid: 0x8100 is the ethertype of 802.1Q VLAN tags"},
		{"IPv4", TPIDs{Compact: 0x0800}, "IPv4"},
		{"wide 802.1Q", TPIDs{0x9900, 0x8100}, "wide_tpid: 0x8100"},
		{"the same", TPIDs{0x9900, 0x9900}, "wide_tpid: 0x9900 is the compact tag's TPID too"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.tpids.Validate()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Validate = %v, want %q", err, c.want)
			}
		})
	}
}

// modelFind is FindTag by another road: it first cuts the frame into the list
// of its tags, then looks at that list.
func modelFind(frame []byte, tpids TPIDs) (Position, error) {
	isCSIG := func(et int) bool { return et != 0 && (et == int(tpids.Compact) || et == int(tpids.Wide)) }
	type tag struct{ et, at int }
	var tags []tag
	at := 12
	for {
		if at+2 > len(frame) {
			tags = append(tags, tag{-1, at})
			break
		}
		et := int(frame[at])<<8 + int(frame[at+1])
		tags = append(tags, tag{et, at})
		if isCSIG(et) && et == int(tpids.Wide) {
			at += 8
		} else if isCSIG(et) || et == 0x8100 || et == 0x88a8 {
			at += 4
		} else {
			break
		}
	}
	vlans := 0
	for i, g := range tags {
		switch {
		case g.et == -1:
			return Position{}, ErrTruncated
		case isCSIG(g.et):
			if next := tags[i+1]; next.et == -1 {
				return Position{}, ErrTruncated
			} else if i+2 != len(tags) {
				return Position{}, ErrNotLast
			} else {
				return Position{g.at, g.et == int(tpids.Wide), vlans, next.at}, nil
			}
		case g.et != 0x8100 && g.et != 0x88a8:
			return Position{}, ErrNoTag
		case vlans == 4:
			return Position{}, ErrTooDeep
		}
		vlans++
	}
	panic("unreachable: the list ends with an ethertype or a cut")
}

func FuzzFindTag(f *testing.F) {
	f.Add(frameOf(0x9900, 0x2385, 0x0800), uint16(0x9900), uint16(0x9901))
	f.Add(frameOf(0x88a8, 5, 0x8100, 5, 0x9901, 1, 2, 3, 0x86dd), uint16(0x9900), uint16(0x9901))
	f.Add(frameOf(0x8100, 5, 0x8100, 5, 0x8100, 5, 0x8100, 5, 0x8100, 5), uint16(0x9900), uint16(0))
	f.Add(frameOf(0x88a8, 5, 0x8100, 5, 0x0800), uint16(0x88a8), uint16(0))
	f.Fuzz(func(t *testing.T, frame []byte, compact, wide uint16) {
		if compact == wide {
			return // refused by Validate: which format it is has no answer
		}
		tpids := TPIDs{compact, wide}
		got, err := FindTag(frame, tpids)
		want, wantErr := modelFind(frame, tpids)
		if !errors.Is(err, wantErr) || err == nil && got != want {
			t.Fatalf("FindTag(% x, %04x) = %+v, %v, want %+v, %v", frame, tpids, got, err, want, wantErr)
		}
		if err != nil {
			return
		}
		for _, l := range []Layout{Draft00, UEC} {
			tag, _, err := ReadTag(frame, tpids, l)
			if err != nil {
				t.Fatal(err)
			}
			plain, err := Remove(frame, tpids)
			if err != nil {
				t.Fatal(err)
			}
			// Inserting finds the end of the VLAN tags again.
			back, err := Insert(plain, tpids, l, tag)
			if err != nil || !bytes.Equal(back, frame) {
				t.Fatalf("% x without its tag is % x, with it again % x, %v", frame, plain, back, err)
			}
		}
	})
}

func TestFindTagAllocatesNothing(t *testing.T) {
	frames := [][]byte{frameOf(0x0800), frameOf(0x88a8, 5, 0x8100, 5, 0x9900, 1, 0x0800), frameOf(0x8100)}
	if n := testing.AllocsPerRun(100, func() {
		for _, f := range frames {
			_, _ = FindTag(f, testTPIDs)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFindTag(b *testing.B) {
	frame := frameOf(0x88a8, 5, 0x8100, 5, 0x9900, 1, 0x0800)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := FindTag(frame, testTPIDs); err != nil {
			b.Fatal(err)
		}
	}
}
