// Package ebpf is the driver for Linux switches whose kernel carries out CSIG by itself: a
// program at tcx egress of each port (csig.bpf.c) measures what leaves it, interval by
// interval, and replaces the signal of tags that are better than the port's own. Wide and
// compact tags, strip, and retired TPIDs are the same program's. docs/native.md has what it
// makes, needs and refuses.
//
// # What is in the kernel
//
// One program csig_egress and its maps for a network namespace. The program is attached to
// the devices themselves, neither through a link nor a pin, and keeps its maps: the data plane
// stays when the agent goes, until its ports' deadlines, and goes with the last device.
//
//	csig_ports   by ifindex: what a port does, its edges and locators, its deadline
//	csig_state   by slot: the bytes of the interval that is open, and of the one before
//	csig_stats   by slot: frames seen, passed, stripped, updated by signal
//	csig_setup   the setup, which Observe reads; no frame needs it
//
// # What is written when
//
// Apply writes what a port does, with a deadline that is over, so that it advertises stale.
// Update writes edges, locators and the deadline of each port that it is given. An entry is
// replaced whole: a frame sees the old one or the new one.
package ebpf
