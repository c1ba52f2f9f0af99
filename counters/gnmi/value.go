package gnmi

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	pb "github.com/openconfig/gnmi/proto/gnmi"
)

// valueKind says which of the forms a value came in.
type valueKind uint8

const (
	otherValue valueKind = iota // text says what it is
	numberValue
	textValue
	listValue
)

// value is the value of a leaf, whatever the encoding. Numbers are exact or are no
// numbers: what came as floating point is not a counter.
type value struct {
	kind valueKind
	num  uint64
	text string
	list []string // of a leaf-list, strings only
}

// whole returns the value as a whole number. RFC 7951 §6.1 writes 64-bit numbers as
// strings.
func (v *value) whole() (n uint64, ok bool) {
	switch v.kind {
	case numberValue:
		return v.num, true
	case textValue:
		n, err := strconv.ParseUint(v.text, 10, 64)
		return n, err == nil
	}
	return 0, false
}

func (v *value) describe() string {
	const most = 40
	switch v.kind {
	case numberValue:
		return strconv.FormatUint(v.num, 10)
	case textValue:
		s := v.text
		for len(s) > most {
			_, n := utf8.DecodeLastRuneInString(s)
			s = s[:len(s)-n]
		}
		return strconv.Quote(s)
	case listValue:
		return "a list"
	}
	return v.text
}

// read takes a value that is not a JSON tree; ok is false for one that is.
func (v *value) read(tv *pb.TypedValue) (ok bool) {
	*v = value{}
	switch x := tv.GetValue().(type) {
	case *pb.TypedValue_UintVal:
		v.kind, v.num = numberValue, x.UintVal
	case *pb.TypedValue_IntVal:
		if x.IntVal < 0 {
			v.text = strconv.FormatInt(x.IntVal, 10)
			return true
		}
		v.kind, v.num = numberValue, uint64(x.IntVal)
	case *pb.TypedValue_StringVal:
		v.kind, v.text = textValue, x.StringVal
	case *pb.TypedValue_AsciiVal:
		v.kind, v.text = textValue, x.AsciiVal
	case *pb.TypedValue_JsonVal:
		return v.readJSON(x.JsonVal)
	case *pb.TypedValue_JsonIetfVal:
		return v.readJSON(x.JsonIetfVal)
	case *pb.TypedValue_LeaflistVal:
		v.kind = listValue
		for _, e := range x.LeaflistVal.GetElement() {
			if s, ok := e.GetValue().(*pb.TypedValue_StringVal); ok {
				v.list = append(v.list, s.StringVal)
			}
		}
	case *pb.TypedValue_BoolVal:
		v.text = "a boolean"
		if x.BoolVal {
			v.num = 1
		}
	case *pb.TypedValue_FloatVal, *pb.TypedValue_DoubleVal, *pb.TypedValue_DecimalVal: //nolint:staticcheck // targets still send them
		v.text = "a floating point number, which cannot carry a 64-bit count"
	case nil:
		v.text = "no value"
	default:
		v.text = "bytes"
	}
	return true
}

// readJSON is read for JSON; ok is false for an object or a list, which may hold
// any number of leaves.
func (v *value) readJSON(js []byte) (ok bool) {
	js = bytes.TrimSpace(js)
	if len(js) == 0 {
		v.text = "empty JSON"
		return true
	}
	switch c := js[0]; {
	case c == '{' || c == '[':
		return false
	case c == '"':
		if json.Unmarshal(js, &v.text) != nil {
			v.text = "damaged JSON"
			return true
		}
		v.kind = textValue
	case c == 't' || c == 'f':
		v.text = "a boolean"
		if c == 't' {
			v.num = 1
		}
	default:
		n, err := strconv.ParseUint(string(js[:min(len(js), 21)]), 10, 64)
		if err != nil {
			v.text = "JSON that is not a whole number"
			return true
		}
		v.kind, v.num = numberValue, n
	}
	return true
}
