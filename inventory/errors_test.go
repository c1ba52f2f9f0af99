package inventory

import (
	"errors"
	"testing"
)

func TestErrorAt(t *testing.T) {
	long := ""
	for range 30 {
		long += "0123456789"
	}
	src := newSource("a.yaml", "format: é\n\tx\x1b\n"+long+"\n", fleetFile)
	rows := []struct {
		name string
		at   position
		want string
	}{
		{"in the text", position{1, 9}, "a.yaml:1:9: wrong\n   1 | format: é\n     |         ^\n  hint: do"},
		{"behind the line's end", position{1, 99}, "a.yaml:1:10: wrong\n   1 | format: é\n     |          ^\n  hint: do"},
		{"before its start", position{1, 0}, "a.yaml:1:1: wrong\n   1 | format: é\n     | ^\n  hint: do"},
		{"behind the last line", position{9, 3}, "a.yaml:4:1: wrong\n   4 | \n     | ^\n  hint: do"},
		{"before the first", position{-1, 1}, "a.yaml:1:1: wrong\n   1 | format: é\n     | ^\n  hint: do"},
		{"tab and escape", position{2, 2}, "a.yaml:2:2: wrong\n   2 |  x·\n     |  ^\n  hint: do"},
		{"long line, at its start", position{3, 1}, "a.yaml:3:1: wrong\n   3 | " + long[:100] + "…\n     | ^\n  hint: do"},
		{"long line, inside", position{3, 101}, "a.yaml:3:101: wrong\n   3 | …" + long[40:140] + "…\n     | " + "                                                             ^\n  hint: do"},
		{"long line, at its end", position{3, 300}, "a.yaml:3:300: wrong\n   3 | …" + long[239:] + "\n     | " + "                                                             ^\n  hint: do"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got := src.errorAt(row.at, "do", "wrong").Error(); got != row.want {
				t.Errorf("got\n%s\nwant\n%s", got, row.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	one, two := &Error{File: "a", Line: 2, Col: 1, Msg: "x"}, &Error{File: "a", Line: 1, Col: 5, Msg: "y"}
	again := *one
	list := Errors{one, two, &again}.finish()
	if got := list.Error(); got != "a:1:5: y\n\na:2:1: x" {
		t.Errorf("got %q", got)
	}
	var e *Error
	if !errors.As(error(list), &e) || e != two {
		t.Errorf("errors.As gives %v", e)
	}
}

func TestSuggest(t *testing.T) {
	rows := []struct {
		word  string
		known []string
		want  string
	}{
		{"sped", []string{"name", "speed"}, `did you mean "speed"?`},
		{"abcw", []string{"abw", "abwc"}, `did you mean "abwc"?`},
		{"log-10", []string{"log-1G", "log-10G"}, `did you mean "log-10G"?`},
		{"Linear", []string{"log", "linear"}, `did you mean "linear"?`},
		{"colour", []string{"name", "speed", "lm"}, "want name, speed or lm"},
		{"x", []string{"name"}, "want name"},
		{"1", []string{"2c", "3"}, "want 2c or 3"},
		{"2", []string{"2c", "3"}, `did you mean "2c"?`},
		{"x", nil, ""},
	}
	for _, row := range rows {
		if got := Suggest(row.word, row.known); got != row.want {
			t.Errorf("Suggest(%q, %q) = %q, want %q", row.word, row.known, got, row.want)
		}
	}
}
