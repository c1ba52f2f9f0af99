package plans

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/csig-agent/csig/vendors"
)

func TestElements(t *testing.T) {
	for text, want := range map[string]int{
		`{}`:                           0,
		`{"a":1,"b":2}`:                0,
		`[1]`:                          1,
		`[1,2,3]`:                      3,
		`[{"a":1,"b":2},3]`:            2,
		`{"a":[1,2],"b":3,"c":[4]}`:    3,
		`[[1,2],[3]]`:                  5,
		`["a,b",","]`:                  2,
		`["[",1,"]",2]`:                4,
		`["\",[1,2]","\\",3]`:          3,
		`[1,{"a":"]"},2]`:              3,
		`[{"a":"\\\"},[,"},{"b":[1]}]`: 3,
	} {
		if got := elements([]byte(text)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
	// Brackets are not checked here, and end nothing that was not open.
	if got := elements([]byte(`]][1`)); got != 1 {
		t.Errorf("%d, want 1", got)
	}
}

func TestPortCount(t *testing.T) {
	for text, want := range map[string]portCount{
		`{}`:                                                 0,
		`{"ports":[]}`:                                       0,
		`{"ports":[{"port":"a"},{"port":"b"}]}`:              2,
		`{"ports":[{"first":0,"last":3}]}`:                   4,
		`{"ports":[{"first":1,"last":2}]}`:                   2,
		`{"ports":[{"first":5,"last":5}]}`:                   1,
		`{"ports":[{"first":5,"last":4}]}`:                   1, // and is refused when it is read
		`{"ports":[{"first":-9,"last":9}]}`:                  1,
		`{"ports":[{"first":0,"last":1},{}]}`:                3,
		`{"ports":[{"first":0,"last":9000000000000000000}]}`: 1 + vendors.MaxPorts,
	} {
		n := portCount(7) // of a decoder that is used again
		if err := json.Unmarshal([]byte(text), &n); err != nil || n != want {
			t.Errorf("%s: %d, %v, want %d", text, n, err, want)
		}
	}
}

// What is at a bound is taken, and one more is refused.
func TestCheckSize(t *testing.T) {
	const plan = `"devices":[{"observed":{"ports":[{},{}]}},{"observed":{"ports":[{}]}}],` +
		`"stages":[{"waves":[{"steps":[{"want":{"ports":[{"first":0,"last":3}]}},{"want":{"ports":[{}]}}]}]}]`
	list := strings.Repeat("0,", MaxElements-1)
	for name, tc := range map[string]struct {
		text   string
		before int64 // ports
		want   string
	}{
		"elements":            {`{"a":[` + list + `0]}`, 0, ""},
		"too many elements":   {`{"a":[0,` + list + `0]}`, 0, "at most 2097152 can be"},
		"a plan":              {`{` + plan + `}`, MaxPorts - 8, ""},
		"too many ports":      {`{` + plan + `}`, MaxPorts - 7, "8388609 ports together"},
		"a plan in a record":  {`{"plan":{` + plan + `}}`, MaxPorts - 8, ""},
		"too many of those":   {`{"plan":{` + plan + `}}`, MaxPorts - 7, "8388609 ports together"},
		"a setup in a record": {`{"setup":{"ports":[{},{}]}}`, MaxPorts - 2, ""},
		"too many of these":   {`{"setup":{"ports":[{},{}]}}`, MaxPorts - 1, "8388609 ports together"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckSize([]byte(tc.text), tc.before)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
