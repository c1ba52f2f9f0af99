package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
)

// A frame's line names the port that wrote its tag, as csig tag decode does.
func TestProbeNamesThePort(t *testing.T) {
	t.Parallel()
	fleet, err := inventory.Load("../../examples/lab.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tag := quantize.Tag{TPID: fleet.Profile.TPID, T: quantize.MinABWC, S: 7, LM: 1}
	rec, err := describeFrame(fleet, true, &probe.Received{Frame: probe.Frame{Tagged: true, Tag: tag}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if printFrame(&b, &rec); !strings.HasSuffix(b.String(), "  abwc S=7 LM=1  0.355–0.45 %, 1, s1:swp1\n") {
		t.Error(b.String())
	}
}

// A signal that the fleet's profile has not is written by no device.
func TestProbeSendsASignalOfTheProfile(t *testing.T) {
	t.Parallel()
	args := []string{"probe", "send", "-I", "lo", "--dst", "02:00:00:00:00:02", "--count", "1", "--signal", "nqd"}
	if _, err := csig(append(args, "-i", "../../examples/lab.yaml")...); err == nil || !strings.Contains(err.Error(), "the profile lab of ../../examples/lab.yaml has no such signal") {
		t.Error(err)
	}
	o := probeOptions{file: "../../examples/legacy-lab/fleet.yaml", dst: "02:00:00:00:00:02"}
	if cfg, err := o.senderConfig(newProbeSend()); err != nil || !slices.Equal(cfg.Signals, []quantize.Signal{quantize.MinABW}) {
		t.Errorf("of a profile of abw alone: %v, %v", cfg.Signals, err)
	}
	o.file, o.tpid, o.wideTPID, o.layout = "", "0x9900", "0x9901", "draft-00"
	if cfg, err := o.senderConfig(newProbeSend()); err != nil || !slices.Equal(cfg.Signals, []quantize.Signal{quantize.MinABW, quantize.MinABWC}) {
		t.Errorf("without a profile: %v, %v", cfg.Signals, err)
	}
}
