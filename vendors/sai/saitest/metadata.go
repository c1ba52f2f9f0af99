package saitest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// attr is an attribute by SAI's metadata (inc/saitam.h, saiport.h, saiswitch.h of SAI 1.18.1).
type attr struct {
	kind                            string   // bool, u8, u16, u32, enum, oids, u16s, u32s, ranges, enums
	values                          []string // of an enum, by their numbers
	mandatory, createOnly, readOnly bool
	initial                         string
}

var (
	tamTypes  = []string{"SAI_TAM_INT_TYPE_IOAM", "SAI_TAM_INT_TYPE_IFA1", "SAI_TAM_INT_TYPE_IFA2", "SAI_TAM_INT_TYPE_P4_INT_1", "SAI_TAM_INT_TYPE_P4_INT_2", "SAI_TAM_INT_TYPE_DIRECT_EXPORT", "SAI_TAM_INT_TYPE_IFA1_TAILSTAMP", "SAI_TAM_INT_TYPE_PATH_TRACING", "SAI_TAM_INT_TYPE_CSIG_COMPACT", "SAI_TAM_INT_TYPE_CSIG_WIDE"}
	presence  = []string{"SAI_TAM_INT_PRESENCE_TYPE_UNDEFINED", "SAI_TAM_INT_PRESENCE_TYPE_PB", "SAI_TAM_INT_PRESENCE_TYPE_L3_PROTOCOL", "SAI_TAM_INT_PRESENCE_TYPE_DSCP", "SAI_TAM_INT_PRESENCE_TYPE_ETH_TYPE"}
	signals   = []string{"SAI_CSIG_SIGNAL_TYPE_ABW", "SAI_CSIG_SIGNAL_TYPE_ABWC", "SAI_CSIG_SIGNAL_TYPE_DELAY", "SAI_CSIG_SIGNAL_TYPE_NQD"}
	bindpoint = []string{"SAI_TAM_BIND_POINT_TYPE_QUEUE", "SAI_TAM_BIND_POINT_TYPE_PORT", "SAI_TAM_BIND_POINT_TYPE_SWITCH"}
)

var metadata = map[string]map[string]attr{
	"SAI_OBJECT_TYPE_TAM_INT": {
		"SAI_TAM_INT_ATTR_TYPE":                         {kind: "enum", values: tamTypes, mandatory: true, createOnly: true},
		"SAI_TAM_INT_ATTR_DEVICE_ID":                    {kind: "u32", mandatory: true, createOnly: true},
		"SAI_TAM_INT_ATTR_INT_PRESENCE_TYPE":            {kind: "enum", values: presence, mandatory: true, createOnly: true},
		"SAI_TAM_INT_ATTR_INLINE":                       {kind: "bool", mandatory: true, createOnly: true},
		"SAI_TAM_INT_ATTR_ETH_TYPE_CODE_POINT":          {kind: "u16", createOnly: true, mandatory: true},
		"SAI_TAM_INT_ATTR_CSIG_SIGNAL_TYPE":             {kind: "enum", values: signals, initial: signals[0]},
		"SAI_TAM_INT_ATTR_BW_TIME_INTERVAL":             {kind: "u32", initial: "128"},
		"SAI_TAM_INT_ATTR_QUANT_BANDS":                  {kind: "u32", initial: "32"},
		"SAI_TAM_INT_ATTR_QUANT_BAND_ID":                {kind: "u16s", initial: "0:null"},
		"SAI_TAM_INT_ATTR_QUANT_BAND_UINT64_RANGE_LIST": {kind: "ranges", initial: "0:null"},
		"SAI_TAM_INT_ATTR_WIDE_QUANT_BASE_VALUE":        {kind: "u32", initial: "0"},
		"SAI_TAM_INT_ATTR_WIDE_QUANT_STEP_VALUE":        {kind: "u32", initial: "1"},
		"SAI_TAM_INT_ATTR_CSIG_D_BIT":                   {kind: "bool", initial: "false"},
	},
	"SAI_OBJECT_TYPE_TAM": {
		"SAI_TAM_ATTR_INT_OBJECTS_LIST":         {kind: "oids", initial: "0:null"},
		"SAI_TAM_ATTR_TAM_BIND_POINT_TYPE_LIST": {kind: "enums", values: bindpoint, createOnly: true, initial: "0:null"},
	},
	"SAI_OBJECT_TYPE_PORT": {
		"SAI_PORT_ATTR_INT_DELETE":   {kind: "bool", initial: "false"},
		"SAI_PORT_ATTR_INT_METADATA": {kind: "u16", initial: "0"},
		"SAI_PORT_ATTR_SPEED":        {kind: "u32", initial: "100000"},
	},
	"SAI_OBJECT_TYPE_SWITCH": {
		"SAI_SWITCH_ATTR_TAM_OBJECT_ID":                 {kind: "oids", initial: "0:null"},
		"SAI_SWITCH_ATTR_MAX_CSIG_TIMERS":               {kind: "u8", readOnly: true, initial: "1"},
		"SAI_SWITCH_ATTR_CSIG_BW_TIME_INTERVAL_IN_USEC": {kind: "u32s", readOnly: true, initial: "0:null"},
	},
}

// typeNumbers are sai_object_type_t (inc/saitypes.h), in bits 55 to 48 of an ID.
var typeNumbers = map[string]uint64{"SAI_OBJECT_TYPE_PORT": 1, "SAI_OBJECT_TYPE_SWITCH": 33, "SAI_OBJECT_TYPE_TAM": 60, "SAI_OBJECT_TYPE_TAM_INT": 83}

// errThrown is an exception that nobody catches.
var errThrown = errors.New("orchagent ends by an uncaught exception")

func thrown(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errThrown}, args...)...)
}

// deserialize reads a value as sai_deserialize_attr_value does, or throws, and returns it as sai_serialize writes it.
func (a *attr) deserialize(text string) (string, error) {
	of, list := map[string]string{"oids": "oid", "enums": "enum", "u16s": "u16", "u32s": "u32", "ranges": "u64"}[a.kind]
	if !list {
		return a.one(a.kind, text)
	}
	count, rest, ok := strings.Cut(text, ":")
	n, err := strconv.ParseUint(count, 10, 32)
	if !ok || err != nil {
		return "", thrown("%q is no list", text)
	}
	if n == 0 {
		if rest != "null" {
			return "", thrown("%q is no empty list", text)
		}
		return text, nil
	}
	elements, each := strings.Split(rest, ","), 1
	if a.kind == "ranges" {
		each = 2
	}
	if uint64(len(elements)) != n*uint64(each) {
		return "", thrown("%q has not %d elements", text, n)
	}
	for i := range elements {
		if elements[i], err = a.one(of, elements[i]); err != nil {
			return "", err
		}
	}
	return count + ":" + strings.Join(elements, ","), nil
}

// one reads a single value. Of a number the bits that its type has not are lost.
func (a *attr) one(kind, text string) (string, error) {
	switch kind {
	case "bool":
		if text != "true" && text != "false" {
			return "", thrown("%q is no bool", text)
		}
		return text, nil
	case "enum":
		if !slices.Contains(a.values, text) {
			return "", thrown("%q is no value of the enum", text)
		}
		return text, nil
	case "oid":
		_, err := parseOID(text)
		return text, err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return "", thrown("%q is no number", text)
	}
	bits, _ := strconv.Atoi(kind[1:])
	return strconv.FormatUint(n<<(64-bits)>>(64-bits), 10), nil
}

// parseOID is sai_deserialize_object_id.
func parseOID(text string) (uint64, error) {
	digits, ok := strings.CutPrefix(text, "oid:0x")
	n, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil {
		return 0, thrown("%q is no object ID", text)
	}
	return n, nil
}

// refs are the objects that a value refers to.
func (a *attr) refs(text string) (out []uint64) {
	if a.kind != "oids" {
		return nil
	}
	_, rest, _ := strings.Cut(text, ":")
	for _, one := range strings.Split(rest, ",") {
		if n, err := parseOID(one); err == nil && n != 0 {
			out = append(out, n)
		}
	}
	return out
}
