package quantize

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// suffix is one way to write a unit: text follows the number, scale is how
// many of the signal's units it stands for, a power of ten.
type suffix struct {
	text  string
	scale uint64
}

// suffixes lists how values of u are printed, largest first, and which other
// spellings are read.
func (u Unit) suffixes() (printed, alsoRead []suffix) {
	switch u {
	case BitPerSecond:
		return []suffix{{"Tbit/s", 1e12}, {"Gbit/s", 1e9}, {"Mbit/s", 1e6}, {"kbit/s", 1e3}, {"bit/s", 1}},
			[]suffix{{"Tbps", 1e12}, {"Gbps", 1e9}, {"Mbps", 1e6}, {"kbps", 1e3}, {"Kbps", 1e3}, {"bps", 1}}
	case Nanosecond:
		// µ is both U+00B5 (micro sign, printed) and U+03BC (Greek mu).
		return []suffix{{"s", 1e9}, {"ms", 1e6}, {"\u00b5s", 1e3}, {"ns", 1}},
			[]suffix{{"us", 1e3}, {"\u03bcs", 1e3}}
	case PPM:
		return []suffix{{"%", 1e4}, {"ppm", 1}}, nil
	}
	return nil, nil
}

// what names the quantity that u measures, for error messages.
func (u Unit) what() string {
	switch u {
	case BitPerSecond:
		return "a rate, e.g. 250Mbit/s"
	case Nanosecond:
		return "a time, e.g. 50us"
	default:
		return "a share, e.g. 2.5%"
	}
}

func (u Unit) scale(text string) (uint64, bool) {
	printed, alsoRead := u.suffixes()
	for _, list := range [][]suffix{printed, alsoRead} {
		for _, s := range list {
			if s.text == text {
				return s.scale, true
			}
		}
	}
	return 0, false
}

// Parse reads a value of unit u as people write it: "1Gbit/s" or "1Gbps", "0.5%", "50us",
// "10 ms", or a bare "0". The result counts u exactly: a fraction that is not
// a whole number of u, a number above 64 bits, a missing unit and a unit of
// another quantity are errors.
func (u Unit) Parse(text string) (uint64, error) {
	end := strings.IndexFunc(text, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if end < 0 {
		end = len(text)
	}
	number, unit := text[:end], strings.TrimLeft(text[end:], " ")
	if number == "" {
		return 0, fmt.Errorf("%q is not a value: want %s", text, u.what())
	}
	scale, ok := u.scale(unit)
	if strings.Trim(text, "0") == "" { // 0 is 0 in every unit
		return 0, nil
	}
	if !ok {
		return 0, fmt.Errorf("%q: %s", text, u.unitProblem(unit))
	}
	v, err := parseDecimal(number, scale)
	switch {
	case errors.Is(err, errNotWhole):
		return 0, fmt.Errorf("%q is not a whole number of %s", text, u)
	case err != nil:
		return 0, fmt.Errorf("%q: %w", text, err)
	}
	return v, nil
}

func (u Unit) unitProblem(unit string) string {
	if unit == "" {
		return "the unit is missing: want " + u.what()
	}
	for _, other := range []Unit{BitPerSecond, PPM, Nanosecond} {
		if _, ok := other.scale(unit); ok && other != u {
			return fmt.Sprintf("%q is the wrong unit, the value is counted in %s: want %s", unit, u, u.what())
		}
	}
	printed, _ := u.suffixes()
	names := make([]string, len(printed))
	for i, s := range printed {
		names[i] = s.text
	}
	return fmt.Sprintf("unknown unit %q: want %s", unit, strings.Join(names, ", "))
}

var (
	errNotWhole = errors.New("not a whole number")
	errTooLarge = errors.New("too large for 64 bits")
	errDecimal  = errors.New("want digits, with at most one decimal point between them")
)

// parseDecimal returns number·scale exactly; scale is a power of ten, so each
// decimal place is an integer until scale is used up.
func parseDecimal(number string, scale uint64) (uint64, error) {
	whole, fraction, point := strings.Cut(number, ".")
	if whole == "" || point && fraction == "" || strings.Contains(fraction, ".") {
		return 0, errDecimal
	}
	n, err := strconv.ParseUint(whole, 10, 64)
	if err != nil { // only digits are left, so it can only be the range
		return 0, errTooLarge
	}
	hi, v := bits.Mul64(n, scale)
	if hi != 0 {
		return 0, errTooLarge
	}
	for _, c := range []byte(fraction) {
		digit := uint64(c - '0')
		if scale == 1 && digit != 0 {
			return 0, errNotWhole
		}
		scale = max(scale/10, 1)
		var carry uint64
		if v, carry = bits.Add64(v, digit*scale, 0); carry != 0 {
			return 0, errTooLarge
		}
	}
	return v, nil
}

// Format writes a value of unit u exactly, in the largest unit that it fills:
// "1.25 Gbit/s", "12.5 %", "50 µs". Parse reads it back.
func (u Unit) Format(v uint64) string {
	number, unit := u.split(v)
	return number + " " + unit
}

func (u Unit) split(v uint64) (number, unit string) {
	printed, _ := u.suffixes()
	if len(printed) == 0 {
		return strconv.FormatUint(v, 10), string(u)
	}
	chosen := printed[len(printed)-1]
	for _, s := range printed {
		if v >= s.scale {
			chosen = s
			break
		}
	}
	if u == PPM && (v == 0 || v >= 100) { // hundredths of a per cent still read well
		chosen = printed[0]
	}
	number = strconv.FormatUint(v/chosen.scale, 10)
	if rest := v % chosen.scale; rest != 0 {
		// scale+rest has a leading 1 in front of the zero-padded decimals.
		decimals := strconv.FormatUint(chosen.scale+rest, 10)[1:]
		number += "." + strings.TrimRight(decimals, "0")
	}
	return number, chosen.text
}

// FormatValue writes a value of a signal as Unit.Format does.
func FormatValue(sig Signal, v uint64) string { return sig.Unit().Format(v) }

// FormatRange writes the range [low, high) of a signal's values:
// "1–1.25 Gbit/s", or "800 Mbit/s – 1 Gbit/s" where the two ends have different units.
func FormatRange(sig Signal, low, high uint64) string {
	lowNumber, lowUnit := sig.Unit().split(low)
	highNumber, highUnit := sig.Unit().split(high)
	if low == 0 || lowUnit == highUnit {
		return lowNumber + "–" + highNumber + " " + highUnit
	}
	return lowNumber + " " + lowUnit + " – " + highNumber + " " + highUnit
}

// FormatCount writes n, which is not negative, with a comma between thousands: 3,968.
func FormatCount(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
