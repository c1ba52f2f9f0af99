//go:build !linux

package vendors

import (
	"net"
	"time"
)

// Unsent is how long a kernel may go on sending what a process wrote, at most, as is usual.
const Unsent = 15 * time.Minute

// BoundUnsent has nothing to set.
func BoundUnsent(net.Conn) error { return nil }
