package ofp

import (
	"reflect"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
)

// TestGroupsInGroups has groups that refer to each other, more often than anything can
// follow: each counts once, and too many actions are ones that are not looked into.
func TestGroupsInGroups(t *testing.T) {
	group := func(ids ...uint32) (a Actions) {
		for _, id := range ids {
			a = a.Group(id)
		}
		return a
	}
	loop := slices.Repeat([]uint32{1, 2}, 1000)
	wide := make([]Actions, maxLooked)
	for i := range wide {
		wide[i] = Actions(nil).Output(1)
	}
	groups := map[uint32]*Group{
		1:  {ID: 1, Buckets: []Actions{group(loop...).Output(7), group(2).PushVLAN(0x8100)}},
		2:  {ID: 2, Buckets: []Actions{group(loop...).Output(8)}},
		3:  {ID: 3, Buckets: []Actions{group(99)}},
		4:  {ID: 4, Buckets: wide},
		5:  {ID: 5, Buckets: []Actions{group(6)}},
		6:  {ID: 6, Buckets: []Actions{group(7)}},
		7:  {ID: 7, Buckets: []Actions{group(8)}},
		8:  {ID: 8, Buckets: []Actions{group(9)}},
		9:  {ID: 9, Buckets: []Actions{group(10)}},
		10: {ID: 10, Buckets: []Actions{Actions(nil).Output(10)}},
	}
	for _, tc := range []struct {
		name string
		a    Actions
		want Effects
	}{
		{"a loop", group(1).Output(6), Effects{Ports: []uint32{6, 7, 8}, Pushes: []uint16{0x8100}}},
		{"one that is not there", group(3), Effects{Opaque: true}},
		{"deep ones", group(5), Effects{Ports: []uint32{10}}},
	} {
		got := tc.a.EffectsWith(groups)
		if got.Groups = nil; !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
	if got := group(4).EffectsWith(groups); !got.Opaque || len(got.Ports) > maxLooked {
		t.Errorf("too many actions: %d ports, %v", len(got.Ports), got.Opaque)
	}
	deep := Actions(nil).Output(5)
	for range 12 {
		deep = append(zeros(Actions(nil).vendor(16+len(deep), nxClone), 6), deep...)
	}
	if got := deep.Effects(); !got.Opaque {
		t.Errorf("clones within clones: %+v", got)
	}
}

// TestLabelsOfManyPorts has ports each of which takes the name of the next one by its number.
func TestLabelsOfManyPorts(t *testing.T) {
	ports := []Port{{Number: 1, Name: "x"}, {Number: 1, Name: "x"}}
	for n := range uint32(maxAnswer / portLen13) {
		ports = append(ports, Port{Number: n + 2, Name: strconv.FormatUint(uint64(n+1), 10)})
	}
	share(ports)
	for i := range ports {
		if !ports[i].Shared {
			t.Fatalf("port %+v goes by its name", ports[i])
		}
	}
}

// TestMatchOfManyFields reads fields that csig has no place for without copying what it
// has with each.
func TestMatchOfManyFields(t *testing.T) {
	b := append([]byte{0, 1, 0, 0}, slices.Repeat([]byte{0xff, 0xff, 0, 0}, 16_000)...)
	order.PutUint16(b[2:], uint16(len(b)))
	b = pad(b, 0)
	if n := testing.AllocsPerRun(3, func() {
		if m, _, err := parseMatch(b); err != nil || len(m.Else) != 64_000 {
			t.Fatalf("%d bytes, %v", len(m.Else), err)
		}
	}); n > 100 {
		t.Errorf("%.0f allocations", n)
	}
}

// TestMessagesOfTheSwitch has the switch send messages by itself whose transactions, which
// it chooses, are those of csig's questions; they are no answers.
func TestMessagesOfTheSwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const flowRemoved, portStatus = 11, 12
		flows := sample()[:1]
		o := connect(t, &fake{answer: func(f *fake, typ byte, xid uint32, _ []byte) bool {
			if typ != typeMultipartReq {
				return false
			}
			for _, byItself := range []byte{flowRemoved, portStatus} {
				f.write(message(byte(version), byItself, xid, make([]byte, 72)...))
			}
			return f.write(part(partFlow, 0, xid, flowStats(&flows[0])...))
		}})
		if got, err := o.Flows(t.Context(), Filter{Table: flows[0].Table}); err != nil || !reflect.DeepEqual(got, flows) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// TestFlowsOfOtherTables has a switch return flows that were not asked for.
func TestFlowsOfOtherTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flows := []Flow{{Table: 3, Cookie: 0xa1}, {Table: 4, Cookie: 0xa1}, {Table: 3, Cookie: 0xb1}}
		var asked byte
		o := connect(t, &fake{answer: func(f *fake, typ byte, xid uint32, body []byte) bool {
			if typ != typeMultipartReq {
				return false
			}
			asked = body[8]
			return f.write(part(partFlow, 0, xid, slices.Concat(flowStats(&flows[0]), flowStats(&flows[1]), flowStats(&flows[2]))...))
		}})
		for _, tc := range []struct {
			which Filter
			want  []Flow
		}{
			{Filter{Table: 3}, []Flow{flows[0], flows[2]}},
			{Filter{Table: AllTables, Cookie: 0xa0, CookieMask: 0xf0}, flows[:2]},
			{Filter{Table: AllTables}, flows},
		} {
			if got, err := o.Flows(t.Context(), tc.which); err != nil || !reflect.DeepEqual(got, tc.want) || asked != tc.which.Table {
				t.Errorf("%+v of table %d: %+v, %v", tc.which, asked, got, err)
			}
		}
	})
}
