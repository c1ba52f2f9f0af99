//go:build !linux

package owner

import "time"

var start = time.Now()

// sinceBoot is a clock that is never set. Only Linux tells one that goes on while the
// machine is suspended.
func sinceBoot() time.Duration { return time.Since(start) }
