package clitest

import (
	"testing"
	"testing/synctest"
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
