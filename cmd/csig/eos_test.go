package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/csig-agent/csig/vendors/cli/clitest"
	"github.com/csig-agent/csig/vendors/eos/eostest"
)

// TestEOSPage is TestComwarePage for docs/eos.md.
func TestEOSPage(t *testing.T) {
	sw := eostest.New("tor1", "Ethernet1", "Ethernet2")
	fired := regexp.MustCompile(`(?m)^   flow csig-\S+-b8$`)
	go func() { // time goes by when its dead-man is there, until it has fired
		for now := sw.Running(); !fired.MatchString(now); now = sw.Running() {
			if strings.Contains(now, "event-handler csig-dead-") {
				sw.Skip(time.Second)
			}
			if wait(t.Context(), 20*time.Millisecond) != nil {
				return
			}
		}
	}()
	switchPage(t, "eos", clitest.New(t, sw.Shell), sw, "mac access-list csig-update-Ethernet1\n", func(*os.Process) {})
}
