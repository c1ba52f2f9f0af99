package clitest

import (
	"testing"
	"testing/synctest"

	"github.com/csig-agent/csig/vendors/vendorstest"
)

// Virtual runs a test beside others, in a bubble of testing/synctest: csig and its switch in
// memory have one clock, which goes on as soon as both wait.
func Virtual(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// Run is Virtual as a subtest.
func Run(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { Virtual(t, test) })
}

// Some is how many of n samples a test takes: fewer with the race detector.
func Some(n int) int {
	if vendorstest.Raced {
		n /= 4
	}
	return max(1, n)
}
