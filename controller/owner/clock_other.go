//go:build !linux

package owner

import "time"

// asleep is not known: only Linux tells how long the machine was suspended.
func asleep() time.Duration { return 0 }
