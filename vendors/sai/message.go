package sai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/protocol/untrusted"
)

// ServerSai (sonic-sairedis lib/ServerSai.cpp) takes arrays of texts: a key and a command, and then names and values in
// turn. What it cannot read ends orchagent. So each message is made here, of what is typed and bounded, and nothing
// else is ever sent.

// names are those that the switch's own SAI has, as libsaimetadata has them: one that is not among them is not sent.
type names map[string]bool

// The commands in use (lib/sairediscommon.h), and what answers have in their place.
const (
	cmdCreate     = "create"
	cmdSet        = "set"
	cmdRemove     = "remove"
	cmdGet        = "get"
	cmdCapability = "attribute_capability_query"
	cmdEnums      = "attr_enum_values_capability_query"

	answerAPI        = "getresponse"
	answerCapability = "attribute_capability_response"
	answerEnums      = "attr_enum_values_capability_response"
)

// commands are those of calls.
var commands = map[OpKind]string{CreateOp: cmdCreate, SetOp: cmdSet, RemoveOp: cmdRemove}

// mostListed bounds the elements of a list that is sent or asked for.
const mostListed = 1024

// errNotSent is in the error of what would be no message that ServerSai surely reads.
var errNotSent = errors.New("not sent to orchagent")

func notSent(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errNotSent}, args...)...)
}

// message is one of its arrays.
func (n names) message(words ...string) ([]byte, error) {
	for _, w := range words {
		if strings.Trim(w, messageBytes) != "" {
			return nil, notSent("%q has other characters than names and numbers", untrusted.Text(w, 60))
		}
	}
	return json.Marshal(words)
}

// messageBytes are those of all that csig sends: names, numbers, IDs and lists.
const messageBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_:,"

// change is the message of a call. The key of an object that is created has the switch's ID in the place of its own.
func (n names) change(op *Op, switchID OID) ([]byte, error) {
	o := &op.Object
	id, is, command := o.OID, o.Type, commands[op.Kind]
	switch {
	case command == "":
		return nil, notSent("a call %q", op.Kind)
	case op.Kind != SetOp && o.Type != TAMObject && o.Type != TAMIntObject:
		return nil, notSent("%s of %s, which is not csig's", command, o.Type)
	case op.Kind == CreateOp:
		id, is = switchID, SwitchObject
		for i := range Attributes {
			if a := &Attributes[i]; a.Object == o.Type && a.Mandatory && o.get(a.Name) == nil {
				return nil, notSent("%s without %s", o.Type, a.Name)
			}
		}
	case op.Kind == SetOp && len(o.Attrs) != 1, op.Kind == RemoveOp && len(o.Attrs) != 0:
		return nil, notSent("%s of %s with %d attributes", command, o.Type, len(o.Attrs))
	}
	key, err := n.key(o.Type, id)
	if err != nil {
		return nil, err
	}
	if id.Type() != is {
		return nil, notSent("%s is the ID of no %s", id, is)
	}
	words := []string{key, command}
	for i, a := range o.Attrs {
		if slices.ContainsFunc(o.Attrs[:i], func(b Attr) bool { return a.Name == b.Name }) {
			return nil, notSent("%s twice", a.Name)
		}
		is, err := n.attribute(o.Type, a.Name)
		if err != nil {
			return nil, err
		}
		if is.ReadOnly || is.CreateOnly && op.Kind == SetOp {
			return nil, notSent("%s cannot be set", a.Name)
		}
		if err := n.value(is, a.Value); err != nil {
			return nil, err
		}
		words = append(words, a.Name, a.Value.String())
	}
	return n.message(words...)
}

// get is the message that asks for an attribute of an object; of a list, for so many elements.
func (n names) get(t ObjectType, id OID, name string, elements int) ([]byte, error) {
	key, err := n.key(t, id)
	if err != nil {
		return nil, err
	}
	is, err := n.attribute(t, name)
	if err != nil {
		return nil, err
	}
	if id.Type() != t {
		return nil, notSent("%s is the ID of no %s", id, t)
	}
	place, err := n.place(is, min(max(elements, 1), mostListed))
	if err != nil {
		return nil, err
	}
	return n.message(key, cmdGet, name, place)
}

// capability is the message that asks what the switch does with an attribute.
func (n names) capability(switchID OID, t ObjectType, name string) ([]byte, error) {
	return n.query(cmdCapability, switchID, t, name)
}

// mostValues is how many values of an enum are asked for: no enum in use has as many, and ServerSai trusts the count that a switch
// answers with.
const mostValues = 64

// enums is the message that asks which values of an enum the switch has for an attribute.
func (n names) enums(switchID OID, t ObjectType, name string) ([]byte, error) {
	if is := attribute(name); is == nil || len(Values[is.Type]) == 0 {
		return nil, notSent("%q has no values of an enum", untrusted.Text(name, 60))
	}
	return n.query(cmdEnums, switchID, t, name, "LIST_SIZE", strconv.Itoa(mostValues))
}

func (n names) query(command string, switchID OID, t ObjectType, name string, more ...string) ([]byte, error) {
	if _, err := n.key(t, switchID); err != nil {
		return nil, err
	}
	if _, err := n.attribute(t, name); err != nil {
		return nil, err
	}
	if switchID.Type() != SwitchObject {
		return nil, notSent("%s is the ID of no switch", switchID)
	}
	return n.message(append([]string{switchID.String(), command, "OBJECT_TYPE", t.String(), "ATTR_ID", name}, more...)...)
}

// key names an object.
func (n names) key(t ObjectType, id OID) (string, error) {
	name := t.String()
	if name == "" || !n[name] || id == 0 {
		return "", notSent("an object %s:%s, which its SAI does not have", name, id)
	}
	return name + ":" + id.String(), nil
}

// attribute is what csig knows of one that the switch's SAI has, too.
func (n names) attribute(t ObjectType, name string) (*AttrType, error) {
	is := attribute(name)
	if is == nil || is.Object != t || !n[name] {
		return nil, notSent("the attribute %q of %s, which its SAI does not have", untrusted.Text(name, 60), t)
	}
	return is, nil
}

// The types of values, as AttrType has them.
const (
	typeBool   = "bool"
	typeU8     = "sai_uint8_t"
	typeU16    = "sai_uint16_t"
	typeU32    = "sai_uint32_t"
	typeOIDs   = "sai_object_list_t"
	typeU16s   = "sai_u16_list_t"
	typeU32s   = "sai_u32_list_t"
	typeRanges = "sai_u64_range_list_t"
	typeEnums  = "sai_s32_list_t "
)

var widths = map[string]int{typeU8: 8, typeU16: 16, typeU32: 32}

// value checks that a value is one of its attribute's.
func (n names) value(is *AttrType, v Value) error {
	wrong := func() error { return notSent("%s=%v, which is no %s", is.Name, v, is.Type) }
	listed, ok := 0, false
	switch v := v.(type) {
	case Bool:
		ok = is.Type == typeBool
	case Number:
		bits := widths[is.Type]
		ok = bits > 0 && uint64(v)>>bits == 0
	case Enum:
		return n.enum(is, is.Type, v)
	case Enums:
		of, list := strings.CutPrefix(is.Type, typeEnums)
		for _, e := range v {
			if err := n.enum(is, of, e); err != nil {
				return err
			}
		}
		listed, ok = len(v), list
	case OIDs:
		listed, ok = len(v), is.Type == typeOIDs && !slices.Contains(v, 0)
	case U16s:
		listed, ok = len(v), is.Type == typeU16s
	case U32s:
		listed, ok = len(v), is.Type == typeU32s
	case Ranges:
		listed, ok = len(v), is.Type == typeRanges && !slices.ContainsFunc(v, func(r Range) bool { return r.Min > r.Max })
	}
	if !ok || listed > mostListed {
		return wrong()
	}
	return nil
}

func (n names) enum(is *AttrType, of string, v Enum) error {
	if !slices.Contains(Values[of], v) || !n[string(v)] {
		return notSent("%s=%s, which its SAI does not have", is.Name, untrusted.Text(string(v), 60))
	}
	return nil
}

// place is a value of an attribute's type for the answer to take the place of, as libsairedis' own client sends it.
func (n names) place(is *AttrType, elements int) (string, error) {
	many := func(one string) string {
		return strconv.Itoa(elements) + ":" + strings.TrimSuffix(strings.Repeat(one+",", elements), ",")
	}
	switch is.Type {
	case typeBool:
		return "false", nil
	case typeU8, typeU16, typeU32:
		return "0", nil
	case typeOIDs:
		return many("oid:0x0"), nil
	case typeU16s, typeU32s:
		return many("0"), nil
	case typeRanges:
		return many("0,0"), nil
	}
	of, list := strings.CutPrefix(is.Type, typeEnums)
	for _, e := range Values[of] {
		if n[string(e)] {
			if list {
				return many(string(e)), nil
			}
			return string(e), nil
		}
	}
	return "", notSent("%s is of the type %s, of which its SAI has no value that csig knows", is.Name, is.Type)
}

// Answers come from the switch: they are bounded, and cleaned before they are shown.

// mostWords bounds the texts of an answer.
const mostWords = 4096

// errAnswer is in the error of what ServerSai never answers.
var errAnswer = errors.New("orchagent's answer is none of libsairedis")

// StatusError is what SAI answered in place of success.
type StatusError struct {
	Status string // SAI_STATUS_…
	Call   string // of csig, e.g. "create SAI_OBJECT_TYPE_TAM_INT"
}

func (e *StatusError) Error() string { return e.Call + ": the switch answers " + e.Status }

const (
	statusSuccess = "SAI_STATUS_SUCCESS"
	statusLong    = "SAI_STATUS_BUFFER_OVERFLOW"
	statusNone    = "SAI_STATUS_ITEM_NOT_FOUND"
)

// answer reads one: its status, and its names and values.
func answer(body []byte, want string) (status string, values [][2]string, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return "", nil, fmt.Errorf("%w: %q is no array", errAnswer, untrusted.Text(string(body), 100))
	}
	var words []string
	for d.More() {
		word, err := d.Token()
		text, is := word.(string)
		if err != nil || !is || len(words) == mostWords {
			return "", nil, fmt.Errorf("%w: %q has other things than up to %d texts", errAnswer, untrusted.Text(string(body), 100), mostWords)
		}
		words = append(words, text)
	}
	if _, err := d.Token(); err != nil {
		return "", nil, fmt.Errorf("%w: it has no end", errAnswer)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "", nil, fmt.Errorf("%w: something is behind it", errAnswer)
	}
	if len(words) < 2 || len(words)%2 != 0 || !strings.HasPrefix(words[0], "SAI_STATUS_") || words[1] != want {
		return "", nil, fmt.Errorf("%w: %q", errAnswer, untrusted.Text(strings.Join(words, " "), 100))
	}
	for i := 2; i < len(words); i += 2 {
		values = append(values, [2]string{words[i], words[i+1]})
	}
	return untrusted.Text(words[0], 64), values, nil
}

// values reads the elements of a list, "N:a,b", "N:null".
func elements(text string) ([]string, error) {
	count, rest, ok := strings.Cut(text, ":")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 0 || n > mostListed {
		return nil, fmt.Errorf("%w: %q is no list", errAnswer, untrusted.Text(text, 60))
	}
	if n == 0 {
		return nil, nil
	}
	list := strings.Split(rest, ",")
	if len(list)%n != 0 {
		return nil, fmt.Errorf("%w: %q has not %d elements", errAnswer, untrusted.Text(text, 60), n)
	}
	return list, nil
}

// parseOIDs reads a list of objects.
func parseOIDs(text string) (OIDs, error) {
	list, err := elements(text)
	if err != nil {
		return nil, err
	}
	out := make(OIDs, 0, len(list))
	for _, one := range list {
		id, err := ParseOID(one)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errAnswer, err)
		}
		out = append(out, id)
	}
	return out, nil
}
