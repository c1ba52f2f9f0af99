package main

import (
	"os"
	"testing"

	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/eos/eostest"
)

// TestEOSPage is TestComwarePage for docs/eos.md.
func TestEOSPage(t *testing.T) {
	sw := eostest.New("tor1", "Ethernet1", "Ethernet2")
	switchPage(t, "eos", clitest.New(t, sw.Shell), sw, "mac access-list csig-update-Ethernet1\n", func(*os.Process) {})
}
