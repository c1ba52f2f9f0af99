package quantize

import (
	"maps"
	"strings"
	"testing"
)

// clos is a format as the draft's §5.5.2.1 suggests: 2+2+3 bits.
func clos() Locator {
	return Locator{Fields: []LocatorField{
		{Name: "stage", Bits: 2, Names: map[string]uint16{"tor": 0, "spine": 1, "core": 2}},
		{Name: "orientation", Bits: 2, Names: map[string]uint16{"up": 0, "down": 1, "side": 2}},
		{Name: "port", Bits: 3},
	}}
}

func TestLocatorText(t *testing.T) {
	small := Locator{Fields: []LocatorField{{Name: "port", Bits: 5}}}
	for _, c := range []struct {
		name   string
		format Locator
		bits   int
		lm     uint16
		want   string
	}{
		{"names", clos(), 7, 0b00_00_011, "stage=tor,orientation=up,port=3"},
		{"a value without a name", clos(), 7, 0b11_01_000, "stage=3,orientation=down,port=0"},
		{"no format", Locator{}, 7, 17, "17"},
		{"no format, wide", Locator{}, 16, 40_000, "40000"},
		{"none", clos(), 7, 126, "none"},
		{"stale", clos(), 7, 125, "stale"},
		{"none, uec", small, 6, 62, "none"},
		{"stale, wide uec", small, 15, 0x7ffd, "stale"},
		{"zero", clos(), 7, 0, "0 (reserved)"},
		{"all ones", clos(), 7, 127, "127 (reserved)"},
		{"spare bits", small, 7, 99, "99 (spare bits set)"},
		{"spare bits clear", small, 7, 9, "port=9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.format.Text(c.bits, c.lm); got != c.want {
				t.Errorf("Text = %q, want %q", got, c.want)
			}
		})
	}
}

func TestLocatorRoundTrip(t *testing.T) {
	formats := map[string]Locator{
		"clos":   clos(),
		"plain":  {},
		"narrow": {Fields: []LocatorField{{Name: "capacity", Bits: 1, Names: map[string]uint16{"slow": 1}}, {Name: "port", Bits: 4}}},
	}
	for name, l := range formats {
		t.Run(name, func(t *testing.T) {
			if err := l.Validate(7); err != nil {
				t.Fatal(err)
			}
			for lm := range uint16(128) {
				text := l.Text(7, lm)
				if strings.HasSuffix(text, ")") { // flagged: not a port, none or stale
					continue
				}
				if back, err := l.Parse(7, text); err != nil || back != lm {
					t.Errorf("%d → %q → %d, %v", lm, text, back, err)
				}
				if Draft00.LMReserved(lm) != "" {
					continue
				}
				byName, byNumber := map[string]string{}, map[string]string{}
				for _, v := range l.Decode(7, lm) {
					byNumber[v.Field] = NamedValue{Value: v.Value}.String()
					byName[v.Field] = byNumber[v.Field]
					if v.Name != "" {
						byName[v.Field] = v.Name
					}
				}
				for _, values := range []map[string]string{byName, byNumber} {
					if back, err := l.Encode(7, values); err != nil || back != lm {
						t.Errorf("%d → %v → %d, %v", lm, values, back, err)
					}
				}
			}
		})
	}
}

func TestLocatorEncodeRefuses(t *testing.T) {
	ok := map[string]string{"stage": "tor", "orientation": "up", "port": "3"}
	with := func(field, value string) map[string]string {
		m := maps.Clone(ok)
		m[field] = value
		return m
	}
	without := maps.Clone(ok)
	delete(without, "port")
	for _, c := range []struct {
		name   string
		format Locator
		values map[string]string
		want   string
	}{
		{"missing field", clos(), without, "locator field port has no value"},
		{"unknown field", clos(), with("device", "1"), "the locator has no field device: it has stage, orientation, port"},
		{"unknown name", clos(), with("stage", "leaf"), `locator field stage: unknown value "leaf": want one of tor, spine, core, or a number`},
		{"not a number", clos(), with("port", "swp3"), `locator field port: "swp3" is not a number`},
		{"too large", clos(), with("port", "8"), "locator field port: 8 does not fit 3 bits"},
		{"much too large", clos(), with("port", "70000"), "70000 does not fit 3 bits"},
		{"negative", clos(), with("port", "-1"), "is not a number"},
		{"reserved zero", clos(), with("port", "0"), "locator 0 is reserved"},
		{"reserved none", clos(), map[string]string{"stage": "3", "orientation": "3", "port": "6"}, `reserved for "none"`},
		{"plain, too large", Locator{}, map[string]string{"": "128"}, "locator: 128 does not fit 7 bits"},
		{"plain, stale", Locator{}, map[string]string{"": "125"}, `reserved for "stale"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if lm, err := c.format.Encode(7, c.values); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Encode = %d, %v, want %q", lm, err, c.want)
			}
		})
	}
}

func TestLocatorParse(t *testing.T) {
	for _, c := range []struct {
		text string
		want uint16
		err  string
	}{
		{"stage=tor,orientation=up,port=3", 3, ""},
		{"port=3,orientation=up,stage=tor", 3, ""},
		{"none", 126, ""},
		{"stale", 125, ""},
		{"127", 127, ""},
		{"0", 0, ""},
		{"128", 0, "does not fit 7 bits"},
		{"stage=tor,stage=tor", 0, "want each field once"},
		{"stage=tor,orientation", 0, "want each field once"},
		{"stage=tor", 0, "field orientation has no value"},
		{"", 0, "is not a number"},
	} {
		got, err := clos().Parse(7, c.text)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("Parse(%q) = %d, %v, want %d, %q", c.text, got, err, c.want, c.err)
		}
	}
}

func TestLocatorValidate(t *testing.T) {
	field := func(f LocatorField) Locator { return Locator{Fields: []LocatorField{f}} }
	for _, c := range []struct {
		name   string
		format Locator
		bits   int
		want   string // "" is valid
	}{
		{"clos in 7 bits", clos(), 7, ""},
		{"clos in 16 bits", clos(), 16, ""},
		{"plain", Locator{}, 6, ""},
		{"one field of all bits", field(LocatorField{Name: "port", Bits: 16}), 16, ""},
		{"clos in 6 bits", clos(), 6, "the fields take 7 bits together, the locator has 6"},
		{"no bits", field(LocatorField{Name: "port"}), 7, "field port: 0 bits, want 1 to 7"},
		{"negative bits", field(LocatorField{Name: "port", Bits: -1}), 7, "field port: -1 bits"},
		{"too many bits", field(LocatorField{Name: "port", Bits: 8}), 7, "field port: 8 bits"},
		{"no name", field(LocatorField{Bits: 3}), 7, `field 0: "" is not a name`},
		{"a number for a name", field(LocatorField{Name: "3", Bits: 3}), 7, `"3" is not a name`},
		{"a separator in a name", field(LocatorField{Name: "a=b", Bits: 3}), 7, `"a=b" is not a name`},
		{"twice", Locator{Fields: []LocatorField{{Name: "a", Bits: 3}, {Name: "a", Bits: 3}}}, 7, "field a is there twice"},
		{"value too large", field(LocatorField{Name: "a", Bits: 2, Names: map[string]uint16{"x": 4}}), 7, "field a: x=4 does not fit 2 bits"},
		{"value twice", field(LocatorField{Name: "a", Bits: 2, Names: map[string]uint16{"x": 1, "y": 1}}), 7, "field a: x and y are both 1"},
		{"numeric value name", field(LocatorField{Name: "a", Bits: 2, Names: map[string]uint16{"1": 2}}), 7, `"1" cannot be a value's name`},
		{"value name none", field(LocatorField{Name: "a", Bits: 2, Names: map[string]uint16{"none": 2}}), 7, `"none" cannot be a value's name`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.format.Validate(c.bits)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Validate = %v, want %q", err, c.want)
			}
		})
	}
	several := Locator{Fields: []LocatorField{{Name: "a", Bits: 9}, {Name: "", Bits: 2}}}
	if err := several.Validate(7); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two problems are reported as: %v", err)
	}
}

func TestWideLM(t *testing.T) {
	field := func(name string, bits int, names ...string) LocatorField {
		f := LocatorField{Name: name, Bits: bits, Names: map[string]uint16{}}
		for i, n := range names {
			f.Names[n] = uint16(i)
		}
		return f
	}
	short := Locator{Fields: []LocatorField{field("switch", 3, "leaf", "spine"), field("port", 4)}}
	for _, tt := range []struct {
		name          string
		compact, wide Locator
		layout        Layout
		lm, want      uint16
		err           string
	}{
		{"numbers", Locator{}, Locator{}, Draft00, 19, 19, ""},
		{"more bits", short, Locator{Fields: []LocatorField{field("switch", 8), field("port", 8)}}, Draft00, 1<<4 | 3, 1<<8 | 3, ""},
		{"another order", short, Locator{Fields: []LocatorField{field("port", 8), field("switch", 7)}}, UEC, 1<<4 | 3, 3<<7 | 1, ""},
		{"one field more", short, Locator{Fields: []LocatorField{field("switch", 3), field("pod", 3), field("port", 4)}}, Draft00, 19, 0, "wide_locator: locator field pod has no value"},
		{"one field less", short, Locator{Fields: []LocatorField{field("port", 8)}}, Draft00, 19, 0, "no field switch"},
		{"fewer bits", short, Locator{Fields: []LocatorField{field("switch", 3), field("port", 1)}}, Draft00, 19, 0, "does not fit 1 bits"},
		{"a number where there are fields", short, Locator{}, Draft00, 19, 0, "wide_locator"},
	} {
		sp := SignalProfile{Locator: tt.compact, WideLocator: tt.wide}
		got, err := sp.WideLM(tt.layout, tt.lm)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %d, %v, want %d, %q", tt.name, got, err, tt.want, tt.err)
		}
	}
}
