package plans

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/csig-agent/csig/vendors"
)

// none tells whether a setup is that of a device without anything of ours.
func none(s *vendors.Setup) bool {
	return len(s.Ports) == 0 && s.TPID == 0 && s.Damaged == "" && s.Config == ""
}

// hash names a setup: two devices with one hash are set up alike.
func hash(s *vendors.Setup) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // plain values only
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
