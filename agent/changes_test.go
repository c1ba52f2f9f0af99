package agent

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/vendors"
)

func TestWhatHappensToAllPortsIsLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	logger := logrus.New()
	logger.SetOutput(&out)
	var c stateChanges
	for i := range 64 {
		name := fmt.Sprintf("swp%d", i+1)
		p := &port{cfg: inventory.Port{Name: name}, state: api.StateLive, logged: api.StateWaiting, reason: "run ethtool PORT", code: findings.CountersInexact}
		if i == 7 {
			p.state = api.StateDown
		}
		c.add(p)
	}
	c.log(logrus.NewEntry(logger))
	got := out.String()
	for _, want := range []string{`ports="swp1 … swp7, swp9 … swp64"`, `reason="run ethtool PORT"`, "port=swp8", "code=counters-inexact", "level=warning"} {
		if !strings.Contains(got, want) {
			t.Errorf("the log lacks %s:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n != 2 {
		t.Errorf("%d lines, want 2:\n%s", n, got)
	}
}

// TestLogOfStatesSaysWhatIsThere: a port is live in the log when the device has taken
// what it is to write, and not when its counters are current.
func TestLogOfStatesSaysWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		src, drv := &script{}, &recorder{update: errors.New("no such bridge")}
		a := newTest(t, src, drv)
		a.log.Logger.SetOutput(&out)
		a.log.Logger.SetLevel(logrus.InfoLevel)
		logs := func(want string, n int) {
			t.Helper()
			if got := strings.Count(out.String(), want); got != n {
				t.Errorf("%q %d times, want %d:\n%s", want, got, n, out.String())
			}
		}
		cycles(t, a, 3)
		logs("to=", 0)
		drv.update = nil
		cycles(t, a, 3)
		logs("from=waiting port=swp1 to=live", 1)
		drv.update = errors.New("no such bridge")
		src.down = true
		cycles(t, a, 2)
		logs("from=live port=swp1", 1) // what counters tell is said at once
		logs("to=down", 1)
		src.down = false
		cycles(t, a, 4)
		logs("to=live", 1)
		drv.update, drv.portErr = nil, &vendors.PortError{Port: "swp1", Err: errors.New("no such device")}
		cycles(t, a, 2)
		logs("to=live", 1)
		drv.portErr = nil
		cycles(t, a, 2)
		logs("to=live", 2)
	})
}
