package all

import (
	"strings"
	"testing"
)

// TestOtherNames: what a person may call a platform leads to the name that a
// fleet file takes, and is none itself.
func TestOtherNames(t *testing.T) {
	r := Default()
	for other, names := range otherNames {
		if _, err := r.Platform(other); err == nil || strings.ToLower(other) != other || strings.ContainsAny(other, "-_ ") {
			t.Errorf("%q: %v", other, err)
		}
		for _, name := range names {
			if _, err := r.Platform(name); err != nil {
				t.Errorf("the hint for %q is %q: %v", other, name, err)
			}
		}
	}
	for word, want := range map[string]string{
		"Arista":       `csig knows no platform "Arista": did you mean eos?`,
		"Cumulus":      `did you mean linux?`,
		"Open-vSwitch": `did you mean ovs?`,
		"junos":        `did you mean junos-ex or junos-qfx or junos-mx?`,
		"soniq":        `did you mean "sonic"?`,
		"toaster":      `csig knows no platform "toaster": csig platforms lists those it knows`,
	} {
		if _, err := r.Platform(word); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", word, err, want)
		}
	}
}
