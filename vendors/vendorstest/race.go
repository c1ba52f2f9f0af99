//go:build race

package vendorstest

// Raced reports whether this program has the race detector, which makes computing take five to ten times as long:
// tests take fewer samples with it.
const Raced = true
