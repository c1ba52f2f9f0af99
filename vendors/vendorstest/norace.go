//go:build !race

package vendorstest

// Raced reports whether this program has the race detector.
const Raced = false
