package sai

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors/sai/saitest"
)

// serverOf speaks with the fake's ServerSai.
func serverOf(t *testing.T, sw *saitest.Switch) *server {
	t.Helper()
	conn, err := net.Dial("unix", sw.Socket())
	if err != nil {
		t.Fatal(err)
	}
	s, err := openServer(t.Context(), conn, fmt.Sprint(sw.Starts(), sw.Socket()), sw.Names(), testSwitch)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// carryOut carries out calls, with the IDs that the switch gives.
func carryOut(t *testing.T, s *server, ids idMap, ops []Op) {
	t.Helper()
	for i := range ops {
		op, err := ids.real(ops[i])
		if err != nil {
			t.Fatal(err)
		}
		id, err := s.do(t.Context(), &op)
		if err != nil {
			t.Fatalf("call %d, %+v: %v", i, ops[i], err)
		}
		switch op.Kind {
		case CreateOp:
			ids[ops[i].Object.OID] = id
		case RemoveOp:
			delete(ids, ops[i].Object.OID)
		}
	}
}

// TestServer makes three profiles' objects one after the other by ServerSai's messages, and takes the last away: all
// is as the program has it each time, and nothing is left.
func TestServer(t *testing.T) {
	sw := saitest.New(t, "Ethernet0", "Ethernet1", "Ethernet2", "Ethernet3")
	s := serverOf(t, sw)
	ids := idMap{}
	var from *Program
	for _, in := range []*Input{draft00(t), uec(t), wide(t), draft00(t), nil} {
		var to *Program
		if in != nil {
			for i := range in.Ports {
				in.Ports[i].OID = OID(PortObject)<<48 | OID(i+2)
			}
			var err error
			if to, _, err = Compile(in); err != nil {
				t.Fatal(err)
			}
		}
		carryOut(t, s, ids, Changes(from, to))
		from = to
		if to == nil {
			break
		}
		for _, o := range append(append([]Object{to.Switch}, to.Own...), to.Ports...) {
			id := o.OID
			if id.own() {
				id = ids[id]
			}
			has := sw.Object(id.String())
			for _, a := range o.Attrs {
				real, err := ids.real(Op{SetOp, Object{o.Type, id, []Attr{a}}})
				if err != nil {
					t.Fatal(err)
				}
				if want := real.Object.Attrs[0].Value.String(); has[a.Name] != want && (has[a.Name] != "" || want != attribute(a.Name).Default.String()) {
					t.Errorf("%s %s is %q, want %q", o.Type, a.Name, has[a.Name], want)
				}
				if got, err := s.get(t.Context(), o.Type, id, a.Name); err != nil || got != real.Object.Attrs[0].Value.String() {
					t.Errorf("get %s of %s: %q, %v", a.Name, id, got, err)
				}
			}
		}
		if len(sw.Objects("SAI_OBJECT_TYPE_TAM_INT"))+1 != len(to.Own) || len(ids) != len(to.Own) {
			t.Errorf("the switch has %v, and csig made %d", sw.Objects("SAI_OBJECT_TYPE_TAM_INT"), len(to.Own))
		}
	}
	if left := append(sw.Objects("SAI_OBJECT_TYPE_TAM_INT"), sw.Objects("SAI_OBJECT_TYPE_TAM")...); len(left) > 0 || len(ids) > 0 || sw.Object(testSwitch.String())[switchTAM] != "0:null" {
		t.Errorf("left: %v, %v, bound %s", left, ids, sw.Object(testSwitch.String())[switchTAM])
	}
	if sw.Died() != nil {
		t.Error(sw.Died())
	}
}

// TestNothingElseIsSent has csig send what is none of its calls: objects, attributes, values and IDs by chance. What
// ServerSai cannot read is not sent, and orchagent lives on.
func TestNothingElseIsSent(t *testing.T) {
	sw := saitest.New(t, "Ethernet0", "Ethernet1")
	s := serverOf(t, sw)
	r := rand.New(rand.NewPCG(1, 22))
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	texts := []string{"", "x", "0", "oid:0x", "SAI_TAM_INT_ATTR_NONE", "true", "SAI_TAM_INT_TYPE_INVALID", "\x00", "2:1", `"`, "\xff", "a|b", " "}
	types := []ObjectType{0, PortObject, SwitchObject, TAMObject, TAMIntObject, 7, 255}
	ids := []OID{0, 1, testSwitch, OID(PortObject)<<48 | 2, OID(TAMObject) << 48, OID(TAMIntObject)<<48 | 77, 1<<64 - 1}
	value := func() Value {
		n := r.IntN(4)
		if r.IntN(20) == 0 {
			n = mostListed + 1
		}
		switch r.IntN(9) {
		case 0:
			return Bool(r.IntN(2) == 0)
		case 1:
			return Number(r.Uint64() >> r.IntN(64))
		case 2:
			return Enum(pick(append(texts, string(compactType), string(bindSwitch))))
		case 3:
			return append(OIDs(nil), ids[r.IntN(len(ids))], ids[r.IntN(len(ids))])
		case 4:
			return append(Enums(nil), bindSwitch, Enum(pick(texts)))
		case 5:
			return make(U16s, n)
		case 6:
			return make(U32s, n)
		case 7:
			return append(Ranges(nil), Range{r.Uint64N(9), r.Uint64N(9)})
		}
		return text(pick(texts))
	}
	program := compiled(t, uec(t))
	good := Changes(nil, program)
	sent, refused, asked := 0, 0, 0
	sw.AnswersEnums = true
	for range 20_000 {
		var err error
		switch r.IntN(4) {
		case 0:
			_, err = s.get(t.Context(), types[r.IntN(len(types))], ids[r.IntN(len(ids))], pick(append(texts, switchTAM, portStrip, attrRanges)))
		case 1:
			if r.IntN(2) == 0 {
				_, err = s.can(t.Context(), types[r.IntN(len(types))], pick(append(texts, switchTAM, portStrip, attrRanges)))
			} else if _, _, err = s.values(t.Context(), types[r.IntN(len(types))], pick(append(texts, attrSignal, portStrip, attrSignal))); err == nil {
				asked++
			}
		default:
			op := good[r.IntN(len(good))]
			o := &op.Object
			o.Attrs = append([]Attr(nil), o.Attrs...)
			for range r.IntN(3) {
				switch r.IntN(6) {
				case 0:
					op.Kind = []OpKind{CreateOp, SetOp, RemoveOp, 'x'}[r.IntN(4)]
				case 1:
					o.Type = types[r.IntN(len(types))]
				case 2:
					o.OID = ids[r.IntN(len(ids))]
				case 3:
					o.Attrs = o.Attrs[:r.IntN(len(o.Attrs)+1)]
				case 4:
					if len(o.Attrs) > 0 {
						o.Attrs[r.IntN(len(o.Attrs))].Value = value()
					}
				case 5:
					name := pick(texts)
					if r.IntN(2) == 0 {
						name = Attributes[r.IntN(len(Attributes))].Name
					}
					o.Attrs = append(o.Attrs, Attr{name, value()})
				}
			}
			_, err = s.do(t.Context(), &op)
		}
		switch status := (*StatusError)(nil); {
		case err == nil || errors.As(err, &status):
			sent++
		case errors.Is(err, errNotSent):
			refused++
		default:
			t.Fatal(err)
		}
	}
	if sw.Died() != nil || sw.Starts() != 1 || sent < 500 || refused < 5000 || asked < 20 {
		t.Errorf("orchagent: %v; %d sent, %d refused", sw.Died(), sent, refused)
	}
	t.Logf("%d sent, %d refused", sent, refused)
}

// TestEveryAttribute has csig create, set and ask for each attribute with each kind of value, good and bad: what is sent is carried out as it was
// asked for, so that no number loses bits and no list its end, orchagent lives on, and each attribute is both sent and refused.
func TestEveryAttribute(t *testing.T) {
	sw := newSwitch(t)
	sw.AnswersEnums = true
	s := serverOf(t, sw)
	ids := idMap{}
	good := Changes(nil, compiled(t, inputs(t)[2]))
	carryOut(t, s, ids, good)
	there := map[ObjectType]OID{PortObject: OID(PortObject)<<48 | 2, SwitchObject: testSwitch, TAMObject: ids[ownOID(TAMObject, 1)]}
	created := map[ObjectType]Object{}
	for i := range good {
		if o := good[i].Object; good[i].Kind == CreateOp {
			real, err := ids.real(Op{CreateOp, o})
			if err != nil {
				t.Fatal(err)
			}
			created[o.Type], there[o.Type] = real.Object, ids[o.OID]
		}
	}
	values := []Value{nil, Bool(false), Bool(true)}
	for _, n := range []uint64{0, 1, 63, 255, 256, 65_535, 65_536, 70_000, 1<<32 - 1, 1 << 32, 1<<64 - 1} {
		values = append(values, Number(n))
	}
	names := []Enum{"", "0", "8", "x", "SAI_TAM_INT_TYPE_INVALID", "SAI_TAM_INT_TYPE_IOAM", "true"}
	for _, list := range Values {
		names = append(names, list...)
	}
	for _, n := range names {
		values = append(values, n, Enums{n}, Enums{bindSwitch, n}, text(n))
	}
	for _, n := range []int{0, 1, 2, 32, mostListed, mostListed + 1} {
		values = append(values, make(U16s, n), make(U32s, n), make(Ranges, n), make(OIDs, n), Enums(slices.Repeat([]Enum{bindSwitch}, n)))
	}
	values = append(values, Ranges{{5, 4}}, Ranges{{0, 1<<64 - 1}}, OIDs{there[TAMIntObject]}, OIDs{there[TAMObject]}, OIDs{there[PortObject]}, OIDs{there[TAMObject], 0}, OIDs{1<<64 - 1})
	for _, odd := range []string{"1:null", "0:null", "-1", "0x10", " 1", "1 ", "2:1", "1:oid:0x", "1:oid:0x0", "\x00", "\xff", `"`, "|", "a,b", "1e3"} {
		values = append(values, text(odd), Enum(odd))
	}
	others := []string{"", "SAI_TAM_INT_ATTR_NONE", "SAI_PORT_ATTR_SPEED", "SAI_PORT_ATTR_SPEED ", "\x00", attrSignal + ",", strings.ToLower(attrSignal)}
	for i := range Attributes {
		others = append(others, Attributes[i].Name)
	}
	sent, refused := map[string]int{}, map[string]int{}
	call := func(what string, err error) bool {
		t.Helper()
		switch {
		case errors.Is(err, errNotSent):
			refused[what]++
			return false
		case err != nil && !errors.As(err, new(*StatusError)), sw.Died() != nil:
			t.Fatalf("%s: %v; orchagent: %v", what, err, sw.Died())
		}
		sent[what]++
		return err == nil
	}
	for _, name := range others {
		for kind, id := range there {
			_, err := s.get(t.Context(), kind, id, name)
			call("get "+name, err)
			_, err = s.can(t.Context(), kind, name)
			call("ask "+name, err)
			_, _, err = s.values(t.Context(), kind, name)
			call("values "+name, err)
			for _, v := range values {
				if _, err := s.do(t.Context(), &Op{SetOp, Object{kind, id, []Attr{{name, v}}}}); call("set "+name, err) && sw.Object(id.String())[name] != v.String() {
					t.Errorf("set %s=%s: it is %s", name, v, sw.Object(id.String())[name])
				}
				o := created[kind]
				o.Type, o.OID, o.Attrs = kind, id, slices.DeleteFunc(slices.Clone(o.Attrs), func(a Attr) bool { return a.Name == name })
				o.Attrs = append(o.Attrs, Attr{name, v})
				made, err := s.do(t.Context(), &Op{CreateOp, o})
				if !call("create "+name, err) {
					continue
				}
				if is := sw.Object(made.String())[name]; is != v.String() {
					t.Errorf("create with %s=%s: it is %s", name, v, is)
				}
				if _, err := s.do(t.Context(), &Op{RemoveOp, Object{Type: kind, OID: made}}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for i := range Attributes {
		a := &Attributes[i]
		calls := []string{"get ", "ask "}
		switch {
		case a.ReadOnly:
		case a.Object == TAMIntObject || a.Object == TAMObject:
			calls = append(calls, "create ")
			fallthrough
		default:
			if !a.CreateOnly {
				calls = append(calls, "set ")
			}
		}
		for _, c := range calls {
			if sent[c+a.Name] == 0 || refused[c+a.Name] == 0 {
				t.Errorf("%s%s: %d sent, %d refused", c, a.Name, sent[c+a.Name], refused[c+a.Name])
			}
		}
	}
	for _, name := range others[:len(others)-len(Attributes)] {
		for _, c := range []string{"get ", "ask ", "values ", "set ", "create "} {
			if sent[c+name] > 0 {
				t.Errorf("%s%q was sent", c, name)
			}
		}
	}
	if sw.Starts() != 1 {
		t.Error("orchagent ended")
	}
}

// firstCreate is the call that makes the first object of a profile.
func firstCreate(t *testing.T) *Op {
	t.Helper()
	p := compiled(t, uec(t))
	return &Op{CreateOp, p.Own[0]}
}

// TestOtherRelease has a switch whose SAI has none of the names: nothing of them is sent.
func TestOtherRelease(t *testing.T) {
	sw := saitest.New(t, "Ethernet0")
	s := serverOf(t, sw)
	for _, gone := range []string{"SAI_TAM_INT_ATTR_CSIG_SIGNAL_TYPE", string(compactType), "SAI_OBJECT_TYPE_TAM_INT"} {
		s.names = sw.Names()
		delete(s.names, gone)
		if _, err := s.do(t.Context(), firstCreate(t)); !errors.Is(err, errNotSent) || !strings.Contains(err.Error(), "which its SAI does not have") {
			t.Errorf("%s: %v", gone, err)
		}
	}
	if log := sw.Log(); len(log) != 0 {
		t.Errorf("sent: %q", log)
	}
}

// TestSilentServer has orchagent not answer in time, and later: nothing is sent in between, and what was asked for is
// carried out once.
func TestSilentServer(t *testing.T) {
	sw := saitest.New(t, "Ethernet0")
	s := serverOf(t, sw)
	s.patience = 50 * time.Millisecond
	goOn := make(chan struct{})
	sw.On(func([]string) error { <-goOn; return nil }, nil)
	port := OID(PortObject)<<48 | 2
	set := func(n int) error {
		_, err := s.do(t.Context(), &Op{SetOp, Object{PortObject, port, []Attr{{portLocator, Number(n)}}}})
		return err
	}
	for range 3 {
		if err := set(1); !errors.Is(err, errSilent) {
			t.Fatal(err)
		}
	}
	close(goOn)
	for end := time.Now().Add(30 * time.Second); s.healthy() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it stays silent")
		}
	}
	s.patience = serverPatience
	if log := sw.Log(); len(log) != 1 || sw.Object(port.String())[portLocator] != "1" {
		t.Errorf("sent: %q", log)
	}
	if err := set(2); err != nil || sw.Object(port.String())[portLocator] != "2" {
		t.Error(err)
	}
	// A caller that gives up does not send the next one either.
	again := make(chan struct{})
	sw.On(func([]string) error { <-again; return nil }, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.get(ctx, PortObject, port, portStrip); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := set(3); !errors.Is(err, errSilent) {
		t.Error(err)
	}
	close(again)
}

// TestServerLost ends orchagent while it carries out a request, and hangs up on the answer.
func TestServerLost(t *testing.T) {
	for _, row := range []struct {
		name string
		made int
		do   func(sw *saitest.Switch)
	}{
		{"before", 0, func(sw *saitest.Switch) { sw.On(func([]string) error { return errLost }, nil) }},
		{"after", 1, func(sw *saitest.Switch) { sw.On(nil, func([]string) error { return errLost }) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			sw := saitest.New(t, "Ethernet0")
			s := serverOf(t, sw)
			row.do(sw)
			op := firstCreate(t)
			if _, err := s.do(t.Context(), op); !errors.Is(err, errLost) {
				t.Error(err)
			}
			if _, err := s.do(t.Context(), op); !errors.Is(err, errLost) {
				t.Error(err)
			}
			if made := sw.Objects("SAI_OBJECT_TYPE_TAM_INT"); len(made) != row.made {
				t.Errorf("made: %v", made)
			}
		})
	}
}

// TestHostileServer answers in other ways than libsairedis.
func TestHostileServer(t *testing.T) {
	for _, body := range []string{
		"", "{}", "[", "[]", `["SAI_STATUS_SUCCESS"]`, `["SAI_STATUS_SUCCESS","getresponse","oid"]`, `["SAI_STATUS_SUCCESS",1]`, `["SAI_STATUS_SUCCESS","getresponse"] x`,
		`["OK","getresponse"]`, `["SAI_STATUS_SUCCESS","other"]`, `[["SAI_STATUS_SUCCESS"],"getresponse"]`, "[" + strings.Repeat(`"a",`, mostWords+1) + `"a"]`, strings.Repeat("[", 100_000),
	} {
		if _, _, err := answer([]byte(body), answerAPI); !errors.Is(err, errAnswer) || len(err.Error()) > 400 {
			t.Errorf("%.60q: %v", body, err)
		}
	}
	for _, list := range []string{"", "1", "x:1", "-1:a", "2:a", "1:", "99999:a", "3:oid:0x1,oid:0x2"} {
		if got, err := parseOIDs(list); !errors.Is(err, errAnswer) {
			t.Errorf("%q: %v, %v", list, got, err)
		}
	}
	for _, row := range [][2]string{{"8,9,", "3"}, {"8,9,", ""}, {"8,x,", "2"}, {"8,,9", "3"}, {"8,9,", "-2"}, {strings.Repeat("1,", mostValues+1), "65"}, {"99999999999,", "1"}, {",", "1"}} {
		if got, err := enumNumbers([][2]string{{"ENUM_CAPABILITIES", row[0]}, {"ENUM_COUNT", row[1]}}); !errors.Is(err, errAnswer) {
			t.Errorf("%q: %v, %v", row, got, err)
		}
	}
	for text, want := range map[string]int{"8,9,": 2, "8,9": 2, "": 0, "7": 1} {
		if got, err := enumNumbers([][2]string{{"ENUM_CAPABILITIES", text}, {"ENUM_COUNT", strconv.Itoa(want)}}); err != nil || len(got) != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if got, err := parseOIDs("2:oid:0x3c000000000001,oid:0x3c000000000002"); err != nil || len(got) != 2 {
		t.Error(got, err)
	}
	if got, err := parseOIDs("0:null"); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
}
