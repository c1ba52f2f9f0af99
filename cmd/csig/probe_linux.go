package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/inventory"
	"github.com/csig-agent/csig/probe"
)

// senderConfig reads the flags of send.
func (o *probeOptions) senderConfig(cmd *cobra.Command) (probe.SenderConfig, error) {
	cfg := probe.SenderConfig{Interface: o.iface, Size: o.size}
	fleet, err := o.domain(cmd)
	if err != nil {
		return cfg, err
	}
	cfg.Profile = &fleet.Profile
	if cfg.Dst, err = net.ParseMAC(o.dst); err != nil || len(cfg.Dst) != 6 {
		return cfg, fmt.Errorf("--dst %q: want an Ethernet address, e.g. 02:00:00:00:00:02", o.dst)
	}
	names := strings.Split(cmp.Or(o.signals, defaultSignals), ",")
	if o.signals == "" && o.file != "" {
		names = nil
		for _, sig := range fleet.Profile.Carried() {
			names = append(names, sig.String())
		}
	}
	for _, name := range names {
		sig, err := parseSignalOrT(strings.TrimSpace(name))
		if err != nil {
			return cfg, fmt.Errorf("--signal: %w", err)
		}
		if _, has := fleet.Profile.Signals[sig]; o.file != "" && !has {
			return cfg, fmt.Errorf("--signal %s: the profile %s of %s has no such signal, and no device writes it", name, fleet.Profile.Name, o.file)
		}
		cfg.Signals = append(cfg.Signals, sig)
	}
	switch {
	case o.wide && o.untagged:
		return cfg, fmt.Errorf("--wide and --untagged: choose one")
	case o.wide:
		cfg.Format = probe.Wide
	case o.untagged:
		cfg.Format = probe.Untagged
	}
	if o.vlans == "" {
		return cfg, nil
	}
	for _, text := range strings.Split(o.vlans, ",") {
		tpid, tci, ok := strings.Cut(text, ":")
		a, err1 := strconv.ParseUint(strings.TrimSpace(tpid), 0, 16)
		b, err2 := strconv.ParseUint(strings.TrimSpace(tci), 0, 16)
		if !ok || err1 != nil || err2 != nil || (a != 0x8100 && a != 0x88a8) {
			return cfg, fmt.Errorf("--vlan %q: want 0x8100:TCI or 0x88a8:TCI, separated by commas", o.vlans)
		}
		cfg.VLANs = append(cfg.VLANs, probe.VLAN{TPID: uint16(a), TCI: uint16(b)})
	}
	return cfg, nil
}

// findInterface is net.InterfaceByName with an error that names the interface.
func findInterface(name string) (*net.Interface, error) {
	nic, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("--interface %s: this machine, or this network namespace, has no such interface (ip link shows them)", name)
	}
	return nic, nil
}

func probeSend(cmd *cobra.Command, o *probeOptions) error {
	cfg, err := o.senderConfig(cmd)
	if err != nil {
		return err
	}
	nic, err := findInterface(o.iface)
	if err != nil {
		return err
	}
	if len(nic.HardwareAddr) != 6 {
		return fmt.Errorf("--interface %s has no Ethernet address to send from: name an Ethernet interface (ip link shows them)", o.iface)
	}
	s, err := probe.NewSender(cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Run(cmd.Context(), o.every, o.count); err != nil {
		return err
	}
	res := sentResult{Format: "csig.probe-send/v1", Run: runName(s.RunID()), Dropped: s.Dropped(), Signals: []sentSignal{}}
	for _, sig := range cfg.Signals {
		res.Signals = append(res.Signals, sentSignal{Signal: sig.String(), T: uint8(sig), Sent: s.Sent(sig)})
	}
	w := cmd.OutOrStdout()
	if o.json {
		return printJSON(w, res)
	}
	for _, g := range res.Signals {
		fmt.Fprintf(w, "%s: %d probes sent\n", g.Signal, g.Sent)
	}
	if res.Dropped > 0 {
		fmt.Fprintf(w, "%d of them were refused by the interface's own queue\n", res.Dropped)
	}
	return nil
}

func probeListen(cmd *cobra.Command, o *probeOptions) error {
	if err := notNegative(cmd, "duration", o.duration); err != nil {
		return err
	}
	fleet, err := o.domain(cmd)
	if err != nil {
		return err
	}
	if _, err := findInterface(o.iface); err != nil {
		return err
	}
	var capture *probe.Capture
	if o.pcap != "" {
		f, err := createNew(o.pcap)
		if err != nil {
			return fmt.Errorf("--pcap: %w", err)
		}
		defer f.Close()
		if capture, err = probe.NewCapture(f); err != nil {
			return fmt.Errorf("--pcap: %w", err)
		}
	}
	l, err := probe.NewListener(probe.ListenerConfig{Interface: o.iface, Profile: &fleet.Profile, All: o.all})
	if err != nil {
		return err
	}
	defer l.Close()
	ctx := cmd.Context()
	if o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	}
	w := cmd.OutOrStdout()
	res := listenResult{Format: "csig.probe-listen/v1", Frames: []receivedFrame{}, Stats: []listenStats{}}
	for n := uint64(0); o.count == 0 || n < o.count; n++ {
		f, err := l.Next(ctx)
		if ctx.Err() != nil {
			break // the time is up, or Ctrl-C: what came so far is the result
		}
		if err != nil {
			return err
		}
		if capture != nil {
			if err := capture.Write(f.At, f.Bytes); err != nil {
				return fmt.Errorf("--pcap: %w", err)
			}
		}
		rec, err := describeFrame(fleet, o.file != "", &f)
		if err != nil {
			return err
		}
		if o.json {
			res.Frames = append(res.Frames, rec)
		} else {
			printFrame(w, &rec)
		}
	}
	for _, s := range l.Stats() {
		res.Stats = append(res.Stats, listenStats{
			Run: runName(s.Run), Signal: s.Signal.String(), Received: s.Received, Lost: s.Lost, Duplicates: s.Duplicates, Reordered: s.Reordered,
		})
	}
	res.Malformed = l.Malformed()
	if res.Overruns, err = l.Overruns(); err != nil {
		return err
	}
	if o.json {
		return printJSON(w, res)
	}
	if res.Malformed > 0 {
		fmt.Fprintf(w, "%s with more than 4 VLAN tags, or with a CSIG tag that is not the last\n", count(int(res.Malformed), "frame"))
	}
	if res.Overruns > 0 {
		fmt.Fprintf(w, "%s dropped by this machine before they were read: what is lost below may be among them\n", count(int(res.Overruns), "frame"))
	}
	for _, s := range res.Stats {
		fmt.Fprintf(w, "run %s %s: %d received, %d lost, %d duplicates, %d reordered\n", s.Run, s.Signal, s.Received, s.Lost, s.Duplicates, s.Reordered)
	}
	return nil
}

// describeFrame puts a received frame in the terms of the result.
func describeFrame(fleet *inventory.Fleet, named bool, f *probe.Received) (receivedFrame, error) {
	rec := receivedFrame{Time: f.At, Probe: f.Probe, Run: runName(f.Payload.Run), Seq: f.Payload.Seq, VLANs: append([]probe.VLAN{}, f.VLANs...)}
	if !f.Tagged {
		return rec, nil
	}
	tag, err := newTagResult(f.Tag, fleet.Profile.Layout)
	if err != nil {
		return rec, err
	}
	if named {
		if err := tag.describe(fleet, f.Tag, "", ""); err != nil {
			return rec, err
		}
	}
	rec.Tag = &tag
	return rec, nil
}

func printFrame(w io.Writer, f *receivedFrame) {
	fmt.Fprint(w, f.Time.Format("15:04:05.000000"))
	if f.Probe {
		fmt.Fprintf(w, "  seq %d", f.Seq)
	}
	for _, v := range f.VLANs {
		fmt.Fprintf(w, "  vlan 0x%04x:0x%04x", v.TPID, v.TCI)
	}
	if f.Tag == nil {
		fmt.Fprintln(w, "  no CSIG tag")
		return
	}
	fmt.Fprintf(w, "  %s S=%d LM=%d", f.Tag.Signal, f.Tag.S, f.Tag.LM)
	if p := f.Tag.Profile; p != nil {
		fmt.Fprintf(w, "  %s, %s", p.Range, p.where())
	}
	fmt.Fprintln(w)
}
