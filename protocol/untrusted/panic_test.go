package untrusted

import (
	"errors"
	"strings"
	"testing"
)

func TestRecover(t *testing.T) {
	work := func(do func()) (err error) {
		defer Recover(&err)
		do()
		return errors.New("its own")
	}
	var none []int
	var nothing map[string]int
	for want, do := range map[string]func(){
		"index out of range [3] with length 0": func() { none[3] = 1 },
		"assignment to entry in nil map":       func() { nothing["a"] = 1 },
		`no\x1b[2J way`:                        func() { panic("no\x1b[2J\nway") },
	} {
		err := work(do)
		var p *PanicError
		if !errors.As(err, &p) || !strings.Contains(err.Error(), want) || !strings.Contains(p.Where, "untrusted.TestRecover.func") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := work(func() {}); err == nil || err.Error() != "its own" {
		t.Errorf("without a panic: %v", err)
	}
}
