package quantize

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Locator is the format of the locator metadata LM of one signal: named bit
// fields, most significant first, the last one ending at bit 0 (draft-00
// §5.5). Spare bits above the first field are 0. The zero value is one unnamed
// number.
type Locator struct {
	Fields []LocatorField
}

// LocatorField is one run of bits in the LM.
type LocatorField struct {
	Name  string
	Bits  int
	Names map[string]uint16 // value names, e.g. "tor": 0; empty for a plain number
}

// NamedValue is one field of a locator with its value.
type NamedValue struct {
	Field string // "" for the unnamed number of an empty format
	Value uint16
	Name  string // the value's name, "" where it has none
}

// String returns "stage=tor", "port=3", or "3" without a field name.
func (v NamedValue) String() string {
	text := v.Name
	if text == "" {
		text = strconv.FormatUint(uint64(v.Value), 10)
	}
	if v.Field == "" {
		return text
	}
	return v.Field + "=" + text
}

// The texts of the two locators that name no port.
const (
	LMNoneText  = "none"  // no device has written yet
	LMStaleText = "stale" // the writing port's counters are stale
)

// Validate checks the format against the width of LM in bits
// (Layout.LMBits or Layout.WideLMBits): the fields fit together, field names
// are unique, every value name is unique in its field, stands for a value of
// its own and fits the field's bits. Names are a letter followed by letters,
// digits, '.', '_' or '-'. All problems are joined.
func (l Locator) Validate(bits int) error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	sum := 0
	seen := make(map[string]bool, len(l.Fields))
	for i, f := range l.Fields {
		switch {
		case !isName(f.Name):
			add("field %d: %q is not a name: want a letter, then letters, digits, '.', '_' or '-'", i, f.Name)
		case seen[f.Name]:
			add("field %s is there twice", f.Name)
		}
		seen[f.Name] = true
		if f.Bits < 1 || f.Bits > bits {
			add("field %s: %d bits, want 1 to %d", f.Name, f.Bits, bits)
			continue // its values cannot be judged
		}
		sum += f.Bits
		owner := make(map[uint16]string, len(f.Names))
		for _, name := range f.sortedNames() {
			v := f.Names[name]
			if !isName(name) || name == LMNoneText || name == LMStaleText {
				add("field %s: %q cannot be a value's name: want a letter, then letters, digits, '.', '_' or '-', and neither %q nor %q", f.Name, name, LMNoneText, LMStaleText)
			}
			if v > lmAllOnes(f.Bits) {
				add("field %s: %s=%d does not fit %d bits", f.Name, name, v, f.Bits)
			}
			if other, taken := owner[v]; taken {
				add("field %s: %s and %s are both %d", f.Name, other, name, v)
			}
			owner[v] = name
		}
	}
	if sum > bits {
		add("the fields take %d bits together, the locator has %d", sum, bits)
	}
	return errors.Join(errs...)
}

// Encode returns the locator for a value of every field, each given as a
// value's name or as a decimal number; an empty format takes the number under
// the name "". It is for naming a port: missing and unknown fields, values that
// do not fit and the reserved locators (Layout.LMReserved) are errors. bits is
// the width of LM; the format must be valid for it.
func (l Locator) Encode(bits int, values map[string]string) (uint16, error) {
	lm, err := l.encode(bits, values)
	if err != nil {
		return 0, err
	}
	if why := lmReserved(bits, lm); why != "" {
		return 0, errors.New("locator " + why)
	}
	return lm, nil
}

func (l Locator) encode(bits int, values map[string]string) (uint16, error) {
	fields := l.fields(bits)
	var lm uint16
	for _, f := range fields {
		text, ok := values[f.Name]
		if !ok {
			return 0, fmt.Errorf("locator field %s has no value", f.Name)
		}
		v, err := f.parse(text)
		if err != nil {
			return 0, err
		}
		lm = lm<<f.Bits | v
	}
	if len(values) == len(fields) { // then they are the same fields
		return lm, nil
	}
	var unknown, known []string
	for _, f := range fields {
		known = append(known, f.Name)
	}
	for name := range values {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return 0, fmt.Errorf("the locator has no field %s: it has %s", strings.Join(unknown, ", "), strings.Join(known, ", "))
}

// WideLM is the locator of a wide tag that names the port which lm names in a compact one: the
// same number, or the same values of the same fields where there are any. Errors: fields that
// only one of the two formats has, and values that do not fit.
func (sp *SignalProfile) WideLM(l Layout, lm uint16) (uint16, error) {
	if len(sp.Locator.Fields) == 0 && len(sp.WideLocator.Fields) == 0 {
		return lm, nil
	}
	values := make(map[string]string)
	for _, v := range sp.Locator.Decode(l.LMBits(), lm) {
		values[v.Field] = strconv.FormatUint(uint64(v.Value), 10)
	}
	wide, err := sp.WideLocator.Encode(l.WideLMBits(), values)
	if err != nil {
		return 0, fmt.Errorf("wide_locator: %w: give it the fields of locator", err)
	}
	return wide, nil
}

func (f LocatorField) parse(text string) (uint16, error) {
	if v, ok := f.Names[text]; ok {
		return v, nil
	}
	where := "locator"
	if f.Name != "" {
		where = "locator field " + f.Name
	}
	v, err := strconv.ParseUint(text, 10, 16)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && v > uint64(lmAllOnes(f.Bits)):
		return 0, fmt.Errorf("%s: %s does not fit %d bits", where, text, f.Bits)
	case err != nil && len(f.Names) == 0:
		return 0, fmt.Errorf("%s: %q is not a number", where, text)
	case err != nil:
		return 0, fmt.Errorf("%s: unknown value %q: want one of %s, or a number", where, text, strings.Join(f.sortedNames(), ", "))
	}
	return uint16(v), nil
}

// Decode splits lm into its fields, most significant first. It does not look
// at what is reserved: Text does. bits is the width of LM.
func (l Locator) Decode(bits int, lm uint16) []NamedValue {
	fields := l.fields(bits)
	out := make([]NamedValue, len(fields))
	for i, f := range slices.Backward(fields) {
		v := lm & lmAllOnes(f.Bits)
		lm >>= f.Bits
		out[i] = NamedValue{Field: f.Name, Value: v, Name: f.name(v)}
	}
	return out
}

// Text writes lm as people read it: "stage=tor,orientation=up,port=3", or "17"
// for an empty format; "none" and "stale" for the two locators that name no
// port; and "127 (reserved)" or "99 (spare bits set)" for what no port of this
// domain can have written. bits is the width of LM.
func (l Locator) Text(bits int, lm uint16) string {
	ones := lmAllOnes(bits)
	switch {
	case lm == ones-1:
		return LMNoneText
	case lm == ones-2:
		return LMStaleText
	case lm == 0 || lm >= ones:
		return fmt.Sprintf("%d (reserved)", lm)
	case l.spare(bits, lm):
		return fmt.Sprintf("%d (spare bits set)", lm)
	}
	values := l.Decode(bits, lm)
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = v.String()
	}
	return strings.Join(parts, ",")
}

// Parse is the inverse of Text for the locators that a tag may rightly carry:
// those of ports, "none" and "stale". It also takes a plain number whatever
// the format, for that which Text flags. bits is the width of LM.
func (l Locator) Parse(bits int, text string) (uint16, error) {
	switch text {
	case LMNoneText:
		return lmAllOnes(bits) - 1, nil
	case LMStaleText:
		return lmAllOnes(bits) - 2, nil
	}
	if !strings.Contains(text, "=") {
		return LocatorField{Bits: bits}.parse(text)
	}
	values := make(map[string]string)
	for part := range strings.SplitSeq(text, ",") {
		field, value, ok := strings.Cut(part, "=")
		if _, twice := values[field]; !ok || twice {
			return 0, fmt.Errorf("locator %q: want each field once, as field=value, separated by commas", text)
		}
		values[field] = value
	}
	return l.Encode(bits, values)
}

// fields is the format with the empty one spelt out.
func (l Locator) fields(bits int) []LocatorField {
	if len(l.Fields) == 0 {
		return []LocatorField{{Bits: bits}}
	}
	return l.Fields
}

func (l Locator) spare(bits int, lm uint16) bool {
	used := 0
	for _, f := range l.fields(bits) {
		used += f.Bits
	}
	return lm>>used != 0
}

func (f LocatorField) name(v uint16) string {
	for name, value := range f.Names {
		if value == v {
			return name
		}
	}
	return ""
}

// sortedNames orders value names by value, then by name, so that nothing
// depends on a map's order.
func (f LocatorField) sortedNames() []string {
	names := make([]string, 0, len(f.Names))
	for name := range f.Names {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if f.Names[a] != f.Names[b] {
			return int(f.Names[a]) - int(f.Names[b])
		}
		return strings.Compare(a, b)
	})
	return names
}

func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || !('0' <= c && c <= '9' || c == '.' || c == '_' || c == '-')) {
			return false
		}
	}
	return s != ""
}
