package process

import "runtime/debug"

// GiveBack gives the system back what the start of a daemon took, which is more than it takes to
// run for years.
func GiveBack() {
	debug.FreeOSMemory()
	unmapStart()
}
