package all

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/csig-agent/csig/vendors"
)

func TestRegistry(t *testing.T) {
	r := Default()
	if got := r.Platforms(); len(got) != 1 || got[0] != "linux" {
		t.Errorf("platforms %v", got)
	}
	_, err := Open("plan9", vendors.Config{})
	var p *vendors.PermanentError
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "linux") {
		t.Errorf("unknown platform: %v", err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a second registration does not panic")
			}
		}()
		r.Register("linux", Platform{Open: openLinux})
	}()
	d, err := r.Open("linux", vendors.Config{})
	switch {
	case runtime.GOOS != "linux" && (d != nil || err == nil):
		t.Errorf("on %s: %v, %v", runtime.GOOS, d, err)
	case err == nil:
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	case d != nil:
		t.Errorf("a driver beside the error %v", err)
	}
}
