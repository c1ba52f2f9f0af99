package rollout

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/quantize"
	"github.com/csig-agent/csig/vlanrules"
)

// pathGate is a Health over the plan of threeStages, whose s1 faces the host h
// with port a.
func pathGate(t *testing.T, answer func() (PathAnswer, error)) *Health {
	t.Helper()
	p, f := threeStages(t)
	net := &inventory.Fleet{Path: "t.yaml", Profile: quantize.Profile{TPID: 0x9900, Signals: map[quantize.Signal]quantize.SignalProfile{quantize.MinABW: {}}}}
	for _, name := range []string{"s1", "s2", "s3"} {
		net.Devices = append(net.Devices, inventory.Device{Name: name, Ports: []inventory.Port{{Name: "a", Action: vlanrules.Update, LM: map[quantize.Signal]uint16{quantize.MinABW: 7}}}})
	}
	net.Devices[0].Ports[0].Peer = inventory.Peer{Device: "h"}
	net.Devices[1].Ports[0].Peer = inventory.Peer{Device: "g"}
	net.Devices[0].Ports = append(net.Devices[0].Ports, inventory.Port{Name: "b", Peer: inventory.Peer{Device: "s2", Port: "b"}})
	net.Devices[1].Ports = append(net.Devices[1].Ports, inventory.Port{Name: "b", Peer: inventory.Peer{Device: "s1", Port: "b"}})
	net.Hosts = []inventory.Host{{Name: "h"}, {Name: "g"}}
	return &Health{Plan: p, Open: f.open, Fleet: net, Paths: []Path{{"g", "h"}},
		ProbePath: func(context.Context, Path, int) (PathAnswer, error) { return answer() }}
}

func TestPathGate(t *testing.T) {
	initial := quantize.Tag{TPID: 0x9900, S: 31, LM: 126}
	tagged := func(change func(*quantize.Tag)) []PathTag {
		tag := initial
		change(&tag)
		return []PathTag{{Signal: quantize.MinABW, Arrived: true, Tag: &tag}}
	}
	asSent := tagged(func(*quantize.Tag) {})
	gone := []PathTag{{Signal: quantize.MinABW, Arrived: true}}
	for name, tc := range map[string]struct {
		wave   string
		answer PathAnswer
		err    error
		want   string // in the error; "": the gate opens
	}{
		"fenced":               {wave: "fence/all", answer: PathAnswer{Tags: gone}},
		"behind the fence":     {wave: "ready/canary", answer: PathAnswer{Tags: asSent}, want: "probe g:h: a tag of abw arrives, while the port that faces h strips"},
		"open":                 {wave: "open/all", answer: PathAnswer{Tags: asSent}},
		"open, and gone":       {wave: "open/all", answer: PathAnswer{Tags: gone}, want: "the tag of abw does not arrive, while every port that faces h"},
		"the stale locator":    {wave: "open/all", answer: PathAnswer{Tags: tagged(func(t *quantize.Tag) { t.S, t.LM = 0, 125 })}},
		"lost":                 {wave: "fence/all", answer: PathAnswer{Tags: []PathTag{{Signal: quantize.MinABW}}}, want: "with the tag of abw does not arrive, one without does"},
		"ordinary frames hurt": {wave: "fence/all", answer: PathAnswer{Plain: "arrives altered", Tags: gone}, want: "without a tag arrives altered: ordinary traffic is affected"},
		"another T":            {wave: "open/all", answer: PathAnswer{Tags: tagged(func(t *quantize.Tag) { t.T = 1 })}, want: "arrives as one of abwc"},
		"S without a locator":  {wave: "open/all", answer: PathAnswer{Tags: tagged(func(t *quantize.Tag) { t.S = 4 })}, want: "without a locator"},
		"a foreign locator":    {wave: "open/all", answer: PathAnswer{Tags: tagged(func(t *quantize.Tag) { t.S, t.LM = 4, 9 })}, want: "locator 9, which no port on a path from g to h has"},
		"a host is gone":       {wave: "open/all", err: errors.New("host g: no such interface"), want: "probe g:h: host g: no such interface"},
	} {
		t.Run(name, func(t *testing.T) {
			g := pathGate(t, func() (PathAnswer, error) { return tc.answer, tc.err })
			var j Judgement
			err := g.pathsAfter(t.Context(), tc.wave, &j)
			switch {
			case tc.want == "" && (err != nil || len(j.Paths) != 1):
				t.Errorf("got %v, %v", j.Paths, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// A path that carries nothing before the first wave stops the plan there.
func TestPathIsDeadBefore(t *testing.T) {
	a := PathAnswer{Plain: "does not arrive"}
	g := pathGate(t, func() (PathAnswer, error) { return a, nil })
	if err := g.pathsBefore(t.Context()); err == nil || !strings.Contains(err.Error(), "does not arrive, before this wave") {
		t.Errorf("got %v", err)
	}
	a.Plain = ""
	if err := g.pathsBefore(t.Context()); err != nil {
		t.Error(err)
	}
}

// Until the MTUs are raised, what is sent along a path fits as they are.
func TestPathWithSmallMTUs(t *testing.T) {
	g := pathGate(t, nil)
	var asked []int
	g.ProbePath = func(_ context.Context, _ Path, mtu int) (PathAnswer, error) {
		asked = append(asked, mtu)
		return PathAnswer{}, nil
	}
	raise := func(id int, device string, from ...int) plans.Wave {
		step := plans.Step{ID: id, Device: device}
		for _, n := range from {
			step.MTU = append(step.MTU, plans.PortMTU{Port: "a", From: n, To: 9004})
		}
		return plans.Wave{Name: device, Steps: []plans.Step{step}}
	}
	g.Plan.Stages = append([]plans.Stage{{Name: plans.StageMTU, Waves: []plans.Wave{raise(8, "s1", 1600, 1500, 1550), raise(9, "s2", 1580)}}}, g.Plan.Stages...)
	if err := g.pathsBefore(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, wave := range []string{"mtu/s1", "mtu/s2", "fence/all"} {
		if err := g.pathsAfter(t.Context(), wave, &Judgement{}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int{1500, 1580, 0, 0}; !slices.Equal(asked, want) {
		t.Errorf("asked for %v bytes, want %v", asked, want)
	}
}

// Tags are to arrive once the port to the receiver is open, or once nothing is
// left that could open it; before, nothing is expected.
func TestPortPromise(t *testing.T) {
	g := pathGate(t, nil)
	for wave, want := range map[string]tagExpectation{"fence/all": tagGone, "ready/rest": tagGone, "open/all": tagArrive} {
		if got := g.portExpectation("s1", "a", wave); got != want {
			t.Errorf("after %s: %d, want %d", wave, got, want)
		}
	}
	g.Plan.Stages = g.Plan.Stages[1:2] // s2 becomes ready in its last wave, and never had a fence
	for wave, want := range map[string]tagExpectation{"ready/canary": tagMay, "ready/rest": tagArrive} {
		if wave == "ready/canary" {
			g.Plan.Device("s2").Observed = setup(vlanrules.Update, "a")
		}
		if got := g.portExpectation("s2", "a", wave); got != want {
			t.Errorf("without a fence, after %s: %d, want %d", wave, got, want)
		}
	}
}

// No test frame goes to a device that must not see a tag, and none over a link
// of which either end is to take longer frames later.
func TestLinksLeftAlone(t *testing.T) {
	g := pathGate(t, nil)
	g.links = linkGate{cannot: map[string]string{}, reported: map[UnprobedLink]bool{}, alive: map[way]bool{}}
	g.Plan.Device("s2").Level = "discard"
	var j Judgement
	if err := g.linksAfter(t.Context(), "fence/all", []string{"s2"}, &j); err != nil || len(j.NotProbed) != 1 || j.NotProbed[0].Reason != "s2 must not see a tag" {
		t.Errorf("to a device that discards: %+v, %v", j, err)
	}
	for _, end := range []string{"s1", "s2"} {
		g := pathGate(t, nil)
		g.links = linkGate{cannot: map[string]string{}, reported: map[UnprobedLink]bool{}, alive: map[way]bool{}}
		g.Open = func(_ context.Context, name string) (Target, error) {
			t.Errorf("%s was opened while the MTU of %s is to be raised", name, end)
			return nil, errors.New("no")
		}
		g.Plan.Stages = append([]plans.Stage{{Name: "first", Waves: []plans.Wave{{Name: "all", Steps: []plans.Step{{Device: "s1"}}}}},
			{Name: plans.StageMTU, Waves: []plans.Wave{{Name: "all", Steps: []plans.Step{{Device: end, MTU: []plans.PortMTU{{Port: "b", From: 1500, To: 1600}}}}}}}}, g.Plan.Stages...)
		if err := g.linksAfter(t.Context(), "first/all", []string{"s1"}, &Judgement{}); err != nil {
			t.Error(err)
		}
	}
}
