package plans

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/csig-agent/csig/vendors"
)

// SetupHash names a setup: two devices with one hash are set up alike.
func SetupHash(s *vendors.Setup) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // plain values only
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Restored is what a rollback gives a device: an earlier setup without its damage,
// and without the ports that the device no longer has.
func Restored(s vendors.Setup, gone []string) vendors.Setup {
	return without(undamaged(s), gone)
}

// without is a setup without the ports that its device does not have any more:
// a driver could not set them up. Without any port that is none at all.
func without(s vendors.Setup, gone []string) vendors.Setup {
	if len(gone) == 0 || len(s.Ports) == 0 {
		return s
	}
	s.Ports = slices.DeleteFunc(slices.Clone(s.Ports), func(p vendors.PortSetup) bool { return slices.Contains(gone, p.Port) })
	if len(s.Ports) == 0 {
		return vendors.Setup{}
	}
	return s
}

func undamaged(s vendors.Setup) vendors.Setup {
	s.Damaged, s.Ports = "", slices.Clone(s.Ports)
	for i := range s.Ports {
		s.Ports[i].Damaged = ""
	}
	return s
}

// SameSetup compares setups; the order of ports is the device's, not ours.
func SameSetup(a, b *vendors.Setup) bool {
	if a.Nothing() || b.Nothing() {
		return a.Nothing() && b.Nothing()
	}
	if !sameDomain(a, b) || !slices.Equal(a.Others, b.Others) || a.Damaged != b.Damaged || len(a.Ports) != len(b.Ports) || b.Config != "" && a.Config != b.Config {
		return false
	}
	if slices.Equal(a.Ports, b.Ports) { // nearly always
		return true
	}
	for p, q := range vendors.PortPairs(a.Ports, b.Ports) {
		if p == nil || q == nil || *p != *q {
			return false
		}
	}
	return true
}
