package gnmi

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	pb "github.com/openconfig/gnmi/proto/gnmi"
)

// Kind says which of the forms a value came in.
type Kind uint8

// The forms.
const (
	Other Kind = iota // Text says what it is
	Number
	Text
	List
)

// Value is the value of a leaf, whatever the encoding. Numbers are exact or are no
// numbers: what came as floating point is not a counter.
type Value struct {
	Kind Kind
	Num  uint64
	Text string
	List []string // of a leaf-list, strings only
}

// Whole returns the value as a whole number. RFC 7951 §6.1 writes 64-bit numbers as
// strings.
func (v *Value) Whole() (n uint64, ok bool) {
	switch v.Kind {
	case Number:
		return v.Num, true
	case Text:
		n, err := strconv.ParseUint(v.Text, 10, 64)
		return n, err == nil
	}
	return 0, false
}

// Describe is the value for an error.
func (v *Value) Describe() string {
	const most = 40
	switch v.Kind {
	case Number:
		return strconv.FormatUint(v.Num, 10)
	case Text:
		s := v.Text
		for len(s) > most {
			_, n := utf8.DecodeLastRuneInString(s)
			s = s[:len(s)-n]
		}
		return strconv.Quote(s)
	case List:
		return "a list"
	}
	return v.Text
}

// Read takes a value that is not a JSON tree; ok is false for one that is.
func (v *Value) Read(tv *pb.TypedValue) (ok bool) {
	*v = Value{}
	switch x := tv.GetValue().(type) {
	case *pb.TypedValue_UintVal:
		v.Kind, v.Num = Number, x.UintVal
	case *pb.TypedValue_IntVal:
		if x.IntVal < 0 {
			v.Text = strconv.FormatInt(x.IntVal, 10)
			return true
		}
		v.Kind, v.Num = Number, uint64(x.IntVal)
	case *pb.TypedValue_StringVal:
		v.Kind, v.Text = Text, x.StringVal
	case *pb.TypedValue_AsciiVal:
		v.Kind, v.Text = Text, x.AsciiVal
	case *pb.TypedValue_JsonVal:
		return v.ReadJSON(x.JsonVal)
	case *pb.TypedValue_JsonIetfVal:
		return v.ReadJSON(x.JsonIetfVal)
	case *pb.TypedValue_LeaflistVal:
		v.Kind = List
		for _, e := range x.LeaflistVal.GetElement() {
			if s, ok := e.GetValue().(*pb.TypedValue_StringVal); ok {
				v.List = append(v.List, s.StringVal)
			}
		}
	case *pb.TypedValue_BoolVal:
		v.Text = "a boolean"
		if x.BoolVal {
			v.Num = 1
		}
	case *pb.TypedValue_FloatVal, *pb.TypedValue_DoubleVal, *pb.TypedValue_DecimalVal: //nolint:staticcheck // targets still send them
		v.Text = "a floating point number, which cannot carry a 64-bit count"
	case nil:
		v.Text = "no value"
	default:
		v.Text = "bytes"
	}
	return true
}

// ReadJSON is Read for JSON; ok is false for an object or a list, which may hold
// any number of leaves.
func (v *Value) ReadJSON(js []byte) (ok bool) {
	js = bytes.TrimSpace(js)
	if len(js) == 0 {
		v.Text = "empty JSON"
		return true
	}
	switch c := js[0]; {
	case c == '{' || c == '[':
		return false
	case c == '"':
		if json.Unmarshal(js, &v.Text) != nil {
			v.Text = "damaged JSON"
			return true
		}
		v.Kind = Text
	case c == 't' || c == 'f':
		v.Text = "a boolean"
		if c == 't' {
			v.Num = 1
		}
	default:
		n, err := strconv.ParseUint(string(js[:min(len(js), 21)]), 10, 64)
		if err != nil {
			v.Text = "JSON that is not a whole number"
			return true
		}
		v.Kind, v.Num = Number, n
	}
	return true
}

// Bare returns a YANG name without its module.
func Bare(name string) string {
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		return name[i+1:]
	}
	return name
}
