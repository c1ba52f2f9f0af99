package fabric

import (
	"flag"
	"fmt"
	"os"
)

// Tests is the body of a TestMain whose tests need namespaces: it runs them
// inside namespaces of their own, as root or as an ordinary user, and ends the
// process with their status. setup, if any, runs inside before them and returns
// what cleans up after them.
//
// Fuzzing stays outside: its workers are connected to their parent by inherited
// files, and need no network.
func Tests(m interface{ Run() int }, setup func() (cleanup func(), err error)) {
	flag.Parse()
	if fuzzing("test.fuzz") || fuzzing("test.fuzzworker") {
		os.Exit(m.Run())
	}
	inside, status, err := Enter()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(max(status, 1))
	}
	if !inside {
		os.Exit(status)
	}
	os.Exit(testsInside(m, setup))
}

// Loopback is a setup of Tests, for peers that listen at 127.0.0.1: frames have namespaces of
// their own.
func Loopback() (cleanup func(), err error) { return func() {}, loopbackUp() }

func testsInside(m interface{ Run() int }, setup func() (func(), error)) int {
	if setup != nil {
		cleanup, err := setup()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer cleanup()
	}
	return m.Run()
}

func fuzzing(name string) bool {
	f := flag.Lookup(name)
	return f != nil && f.Value.String() != "" && f.Value.String() != "false"
}
