package main

import (
	"strings"
	"testing"
)

// What is typed wrong is answered with what was meant.
func TestSlips(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"inventory chek -i x":                     `unknown command "chek" for "csig inventory": did you mean check?`,
		"inventori check":                         `unknown command "inventori" for "csig": did you mean inventory?`,
		"tag dcode --json 99":                     "did you mean decode",
		"inventory -i x":                          "unknown shorthand flag: 'i'",
		"tag decode 81000001":                     "HEX is no CSIG tag: 0x8100 is the ethertype of 802.1Q VLAN tags",
		"tag decode --wide 0800" + "000000000000": "HEX is no CSIG tag: 0x0800 is the ethertype of IPv4",
		"tag decode 05dc0001":                     "HEX is no CSIG tag: 0x05dc is below 0x0600",
	} {
		if _, err := csig(strings.Fields(typed)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("csig %s: %v, want %q", typed, err, want)
		}
	}
}
