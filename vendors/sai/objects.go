package sai

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/csig-agent/csig/quantize"
)

// OID is the number of an object. In recordings it has the form of sairedis: the object's
// type in bits 55 to 48, its index in bits 38 to 0.
type OID uint64

func (o OID) String() string { return fmt.Sprintf("oid:0x%x", uint64(o)) }

// ParseOID reads the text that String writes.
func ParseOID(text string) (OID, error) {
	digits, ok := strings.CutPrefix(text, "oid:0x")
	n, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not an object ID: want oid:0x and up to 16 hexadecimal digits, not all zero", text)
	}
	return OID(n), nil
}

// Type is the type that the ID has by its form.
func (o OID) Type() ObjectType { return ObjectType(o >> 48 & 0xff) }

// ObjectType is a sai_object_type_t.
type ObjectType uint8

// The object types in use (inc/saitypes.h).
const (
	PortObject   ObjectType = 1
	SwitchObject ObjectType = 33
	TAMObject    ObjectType = 60
	TAMIntObject ObjectType = 83
)

var objectNames = map[ObjectType]string{
	PortObject:   "SAI_OBJECT_TYPE_PORT",
	SwitchObject: "SAI_OBJECT_TYPE_SWITCH",
	TAMObject:    "SAI_OBJECT_TYPE_TAM",
	TAMIntObject: "SAI_OBJECT_TYPE_TAM_INT",
}

func (t ObjectType) String() string { return objectNames[t] }

// csigIndex marks the indexes of csig's own objects: what is created by other recordings
// counts from 1.
const csigIndex = 0x43 << 32

// own tells whether the ID is one of csig's.
func (o OID) own() bool { return o&(0x7f<<32) == csigIndex }

// ownOID is the ID of an object of csig's.
func ownOID(t ObjectType, index uint32) OID { return OID(t)<<48 | csigIndex | OID(index) }

// Value is the value of an attribute, as recordings have it.
type Value interface{ String() string }

// The types of values.
type (
	// Bool is true or false.
	Bool bool
	// Number is a number of any width.
	Number uint64
	// Enum is the name of an enum's value.
	Enum string
	// OIDs is a list of objects.
	OIDs []OID
	// Enums is a list of enums' values.
	Enums []Enum
	// U16s is a list of numbers.
	U16s []uint16
	// U32s is a list of numbers.
	U32s []uint32
	// Ranges is a list of ranges.
	Ranges []Range
)

// Range is a sai_u64_range_t: Max is a part of it.
type Range struct{ Min, Max uint64 }

func (v Bool) String() string   { return strconv.FormatBool(bool(v)) }
func (v Number) String() string { return strconv.FormatUint(uint64(v), 10) }
func (v Enum) String() string   { return string(v) }
func (v OIDs) String() string   { return list(v) }
func (v Enums) String() string  { return list(v) }
func (v U16s) String() string   { return list(v) }
func (v U32s) String() string   { return list(v) }
func (v Ranges) String() string { return list(v) }

func (r Range) String() string { return fmt.Sprintf("%d,%d", r.Min, r.Max) }

// list is how recordings have lists: the count, then the elements.
func list[T any](v []T) string {
	if len(v) == 0 {
		return "0:null"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d:", len(v))
	for i := range v {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, v[i])
	}
	return b.String()
}

// Attr is an attribute with its value.
type Attr struct {
	Name  string
	Value Value
}

// Object is one object, or what is set of one that exists without csig.
type Object struct {
	Type  ObjectType
	OID   OID
	Attrs []Attr // in the order of attributes
}

// get is the value of an attribute, nil where the object has none.
func (o *Object) get(name string) Value {
	for i := range o.Attrs {
		if o.Attrs[i].Name == name {
			return o.Attrs[i].Value
		}
	}
	return nil
}

// set gives the object attributes, in place of those that it has by their names.
func (o *Object) set(attrs []Attr) {
	for _, a := range attrs {
		i := slices.IndexFunc(o.Attrs, func(b Attr) bool { return a.Name == b.Name })
		if i < 0 {
			o.Attrs = append(o.Attrs, a)
			continue
		}
		o.Attrs[i].Value = a.Value
	}
}

// AttrType is what the headers say of an attribute.
type AttrType struct {
	Object     ObjectType
	Name       string
	Type       string // as @type has it
	CreateOnly bool   // as @flags has it, as are:
	Mandatory  bool
	ReadOnly   bool
	Default    Value // what it has where nothing sets it; nil: see Mandatory
}

const (
	tamInt = "SAI_TAM_INT_ATTR_"
	tam    = "SAI_TAM_ATTR_"

	portStrip    = "SAI_PORT_ATTR_INT_DELETE"
	portLocator  = "SAI_PORT_ATTR_INT_METADATA"
	switchTAM    = "SAI_SWITCH_ATTR_TAM_OBJECT_ID"
	attrInts     = tam + "INT_OBJECTS_LIST"
	attrBands    = tamInt + "QUANT_BANDS"
	attrRanges   = tamInt + "QUANT_BAND_UINT64_RANGE_LIST"
	attrSignal   = tamInt + "CSIG_SIGNAL_TYPE"
	attrDBit     = tamInt + "CSIG_D_BIT"
	attrInterval = tamInt + "BW_TIME_INTERVAL"
)

// Attributes are those in use: make sai-check compares them with the headers.
var Attributes = []AttrType{
	{Object: TAMIntObject, Name: tamInt + "TYPE", Type: "sai_tam_int_type_t", CreateOnly: true, Mandatory: true},
	{Object: TAMIntObject, Name: tamInt + "DEVICE_ID", Type: "sai_uint32_t", CreateOnly: true, Mandatory: true},
	{Object: TAMIntObject, Name: tamInt + "INT_PRESENCE_TYPE", Type: "sai_tam_int_presence_type_t", CreateOnly: true, Mandatory: true},
	{Object: TAMIntObject, Name: tamInt + "INLINE", Type: "bool", CreateOnly: true, Mandatory: true},
	{Object: TAMIntObject, Name: tamInt + "ETH_TYPE_CODE_POINT", Type: "sai_uint16_t", CreateOnly: true, Mandatory: true},
	{Object: TAMIntObject, Name: attrSignal, Type: "sai_csig_signal_type_t", Default: Enum("SAI_CSIG_SIGNAL_TYPE_ABW")},
	{Object: TAMIntObject, Name: attrInterval, Type: "sai_uint32_t", Default: Number(128)},
	{Object: TAMIntObject, Name: attrBands, Type: "sai_uint32_t", Default: Number(32)},
	{Object: TAMIntObject, Name: tamInt + "QUANT_BAND_ID", Type: "sai_u16_list_t", Default: U16s(nil)},
	{Object: TAMIntObject, Name: attrRanges, Type: "sai_u64_range_list_t", Default: Ranges(nil)},
	{Object: TAMIntObject, Name: tamInt + "WIDE_QUANT_BASE_VALUE", Type: "sai_uint32_t", Default: Number(0)},
	{Object: TAMIntObject, Name: tamInt + "WIDE_QUANT_STEP_VALUE", Type: "sai_uint32_t", Default: Number(1)},
	{Object: TAMIntObject, Name: attrDBit, Type: "bool", Default: Bool(false)},
	{Object: TAMObject, Name: attrInts, Type: "sai_object_list_t", Default: OIDs(nil)},
	{Object: TAMObject, Name: tam + "TAM_BIND_POINT_TYPE_LIST", Type: "sai_s32_list_t sai_tam_bind_point_type_t", CreateOnly: true, Default: Enums(nil)},
	{Object: PortObject, Name: portStrip, Type: "bool", Default: Bool(false)},
	{Object: PortObject, Name: portLocator, Type: "sai_uint16_t", Default: Number(0)},
	{Object: SwitchObject, Name: switchTAM, Type: "sai_object_list_t", Default: OIDs(nil)},
	{Object: SwitchObject, Name: "SAI_SWITCH_ATTR_MAX_CSIG_TIMERS", Type: "sai_uint8_t", ReadOnly: true},
	{Object: SwitchObject, Name: "SAI_SWITCH_ATTR_CSIG_BW_TIME_INTERVAL_IN_USEC", Type: "sai_u32_list_t", ReadOnly: true},
}

// attribute is what is known of one of Attributes, nil for any other.
func attribute(name string) *AttrType {
	i := slices.IndexFunc(Attributes, func(a AttrType) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return &Attributes[i]
}

// Values are the names of enums' values in use, with the type they are of.
var Values = map[string][]Enum{
	"sai_tam_int_type_t":          {compactType, wideType},
	"sai_tam_int_presence_type_t": {presenceEthertype},
	"sai_csig_signal_type_t":      signalTypes[:],
	"sai_tam_bind_point_type_t":   {bindSwitch},
}

// Numbers are those by which a switch answers which values it has (sai_query_attribute_enum_values_capability).
var Numbers = map[Enum]int64{
	compactType: 8, wideType: 9,
	signalTypes[quantize.MinABW]: 0, signalTypes[quantize.MinABWC]: 1, signalTypes[quantize.MaxPD]: 2, signalTypes[quantize.MaxNQD]: 3,
}

const (
	compactType       Enum = "SAI_TAM_INT_TYPE_CSIG_COMPACT"
	wideType          Enum = "SAI_TAM_INT_TYPE_CSIG_WIDE"
	presenceEthertype Enum = "SAI_TAM_INT_PRESENCE_TYPE_ETH_TYPE"
	bindSwitch        Enum = "SAI_TAM_BIND_POINT_TYPE_SWITCH"
)

// signalTypes are in wire order: their numbers are T.
var signalTypes = [...]Enum{
	"SAI_CSIG_SIGNAL_TYPE_ABW", "SAI_CSIG_SIGNAL_TYPE_ABWC", "SAI_CSIG_SIGNAL_TYPE_DELAY", "SAI_CSIG_SIGNAL_TYPE_NQD",
}
