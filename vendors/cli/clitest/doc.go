// Package clitest has switches with a command line for tests: an SSH server in this
// process, whose shells interpret a vendor's grammar. It echoes what comes before the
// line is whole, pages long output and can be slow, drop sessions or end them half way.
package clitest
