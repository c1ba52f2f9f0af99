package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/probe"
	"github.com/csig-agent/csig/quantize"
)

func newProbe() *cobra.Command {
	return group("probe", "Send tagged probe frames, and show what arrives", `  csig probe listen -I eth1 -i fleet.yaml
  csig probe send -I eth1 --dst 02:00:00:00:00:02 -i fleet.yaml`, newProbeSend(), newProbeListen())
}

// defaultSignals are what probes ask for without a profile.
const defaultSignals = "abw,abwc"

// probeOptions are shared by both ends.
type probeOptions struct {
	iface, file, tpid, wideTPID, layout string
	count                               uint64
	json                                bool

	dst, signals, vlans string // send
	wide, untagged      bool
	every               time.Duration
	size                int

	duration time.Duration // listen
	all      bool
	pcap     string
}

func (o *probeOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.iface, "interface", "I", "", "network interface (required)")
	f.StringVarP(&o.file, "inventory", "i", "", "fleet file whose profile gives TPIDs, layout, start values, ranges and names")
	f.StringVar(&o.tpid, "tpid", fmt.Sprintf("0x%04x", defaultTPIDs.Compact), "TPID of the compact tag, without -i")
	f.StringVar(&o.wideTPID, "wide-tpid", fmt.Sprintf("0x%04x", defaultTPIDs.Wide), "TPID of the wide tag, without -i")
	f.StringVar(&o.layout, "layout", "draft-00", "draft-00 or uec, without -i")
	addJSON(cmd, &o.json)
	_ = cmd.MarkFlagRequired("interface")
}

// domain returns the fleet of -i, or one whose profile the flags describe.
func (o *probeOptions) domain(cmd *cobra.Command) (*inventory.Fleet, error) {
	if o.file != "" {
		for _, name := range []string{"tpid", "wide-tpid", "layout"} {
			if cmd.Flags().Changed(name) {
				return nil, usageError(cmd, "--%s and -i: the fleet file's profile has it already; leave out one of them", name)
			}
		}
		return inventory.Load(o.file)
	}
	layout, err := quantize.ParseLayout(o.layout)
	if err != nil {
		return nil, fmt.Errorf("--layout: %w", err)
	}
	compact, err := parseTPIDs("tpid", o.tpid)
	if err != nil {
		return nil, err
	}
	wide, err := parseTPIDs("wide-tpid", o.wideTPID)
	if err != nil {
		return nil, err
	}
	if len(compact) != 1 || len(wide) != 1 {
		return nil, fmt.Errorf("--tpid %q, --wide-tpid %q: want one each", o.tpid, o.wideTPID)
	}
	f := &inventory.Fleet{Profile: quantize.Profile{TPID: compact[0], WideTPID: wide[0], Layout: layout}}
	return f, f.Profile.TPIDs().Validate()
}

func newProbeSend() *cobra.Command {
	var o probeOptions
	cmd := &cobra.Command{
		Use:   "send -I INTERFACE --dst MAC",
		Short: "Send tagged probe frames",
		Long: `Send probe frames with the tag a sender host starts with, of each signal in turn.
Needs the right to open packet sockets (root, or CAP_NET_RAW).`,
		Example: `  csig probe send -I eth1 --dst 02:00:00:00:00:02 --count 100
  csig probe send -I eth1 --dst 02:00:00:00:00:02 -i fleet.yaml --signal abwc --vlan 0x8100:5`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return probeSend(cmd, &o) },
	}
	o.add(cmd)
	f := cmd.Flags()
	f.StringVar(&o.dst, "dst", "", "destination address (required)")
	f.StringVar(&o.signals, "signal", "", "signals to ask for, in turn: "+strings.Join(quantize.SignalNames(), ", ")+", or numbers from 0 to 15 (default those of the profile; without -i "+defaultSignals+")")
	f.StringVar(&o.vlans, "vlan", "", "VLAN tags in front, outermost first, as TPID:TCI, separated by commas")
	f.BoolVar(&o.wide, "wide", false, "the 8-byte tag instead of the 4-byte one")
	f.BoolVar(&o.untagged, "untagged", false, "no CSIG tag at all")
	f.Uint64Var(&o.count, "count", 0, "how many to send (default: until interrupted)")
	f.DurationVar(&o.every, "every", 10*time.Millisecond, "time between two probes")
	f.IntVar(&o.size, "size", 0, "bytes of a frame without FCS (default: the least that holds everything)")
	_ = cmd.MarkFlagRequired("dst")
	return cmd
}

// sentResult is what send prints.
type sentResult struct {
	Format  string       `json:"format"`
	Run     string       `json:"run"` // in hexadecimal
	Dropped uint64       `json:"dropped"`
	Signals []sentSignal `json:"signals"`
}

type sentSignal struct {
	Signal string `json:"signal"`
	T      uint8  `json:"t"`
	Sent   uint64 `json:"sent"`
}

func newProbeListen() *cobra.Command {
	var o probeOptions
	cmd := &cobra.Command{
		Use:   "listen -I INTERFACE",
		Short: "Show the probes that arrive, and their decoded tags",
		Long: `Show the probes that arrive on an interface, and their decoded tags; with -i also
the range behind S and the name behind LM. Ends at --count, after --duration, or
when interrupted, with the losses. Needs the right to open packet sockets.`,
		Example: `  csig probe listen -I eth1 -i fleet.yaml
  csig probe listen -I eth1 --duration 10s --json
  csig probe listen -I eth1 --all --pcap tagged.pcap`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return probeListen(cmd, &o) },
	}
	o.add(cmd)
	f := cmd.Flags()
	f.Uint64Var(&o.count, "count", 0, "end after so many frames")
	f.DurationVar(&o.duration, "duration", 0, "end after this time")
	f.BoolVar(&o.all, "all", false, "show every CSIG-tagged frame, not only probes")
	f.StringVar(&o.pcap, "pcap", "", "write the frames to this new file")
	return cmd
}

// listenResult is what listen --json prints.
type listenResult struct {
	Format    string          `json:"format"`
	Frames    []receivedFrame `json:"frames"`
	Stats     []listenStats   `json:"stats"`
	Malformed uint64          `json:"malformed"` // frames whose L2 tags make no sense
	Overruns  uint64          `json:"overruns"`  // frames that this machine dropped before csig read them
}

type receivedFrame struct {
	Time  time.Time    `json:"time"`
	Probe bool         `json:"probe"`
	Run   string       `json:"run"`
	Seq   uint64       `json:"seq"`
	VLANs []probe.VLAN `json:"vlan_tags"`
	Tag   *tagResult   `json:"tag"` // null for a frame that came without
}

type listenStats struct {
	Run        string `json:"run"`
	Signal     string `json:"signal"`
	Received   uint64 `json:"received"`
	Lost       uint64 `json:"lost"`
	Duplicates uint64 `json:"duplicates"`
	Reordered  uint64 `json:"reordered"`
}

func runName(id uint64) string { return fmt.Sprintf("%016x", id) }
