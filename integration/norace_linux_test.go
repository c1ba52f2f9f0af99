//go:build !race

package integration

// raceDetector reports whether this test has the race detector; the programs under test then have it, too.
const raceDetector = false
