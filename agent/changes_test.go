package agent

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/csig-agent/csig/agent/api"
	"github.com/csig-agent/csig/inventory"
)

func TestWhatHappensToAllPortsIsLoggedOnce(t *testing.T) {
	var out bytes.Buffer
	logger := logrus.New()
	logger.SetOutput(&out)
	var c stateChanges
	for i := range 64 {
		name := fmt.Sprintf("swp%d", i+1)
		p := &port{cfg: inventory.Port{Name: name}, state: api.StateLive, reason: "run ethtool " + name}
		if i == 7 {
			p.state = api.StateDown
		}
		c.add(p, api.StateWaiting)
	}
	c.log(logrus.NewEntry(logger))
	got := out.String()
	for _, want := range []string{`ports="swp1 … swp7, swp9 … swp64"`, `reason="run ethtool PORT"`, "port=swp8", `reason="run ethtool swp8"`, "level=warning"} {
		if !strings.Contains(got, want) {
			t.Errorf("the log lacks %s:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n != 2 {
		t.Errorf("%d lines, want 2:\n%s", n, got)
	}
}
