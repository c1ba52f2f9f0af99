// Package ofp is the part of OpenFlow 1.3 and 1.4 that csig speaks with switches:
// flow tables and groups changed and read back, port counters, what tables and groups
// can do, and the Nicira extensions that a flow of an Open vSwitch bridge needs. It
// knows nothing of CSIG.
//
// A Conn is one connection, with any switch; a Session is one with a hardware switch,
// made again whenever it is lost. Changes are either steps that each end with a barrier
// (Apply), or an atomic bundle (Commit, 1.4 only).
//
// Sections are those of the OpenFlow Switch Specification 1.4.0 (ONF TS-012) where
// nothing else is said; those of 1.3.5 (ONF TS-023) have the same numbers, but for errors
// (§7.4.4 in 1.3.5) and roles (§7.3.9 there, §7.3.8 here). Extensions are those of
// openvswitch/ovs, include/openflow/nicira-ext.h and lib/ofp-actions.c. What Open vSwitch
// promises of a bundle is in ovs-ofctl(8), --bundle: it is carried out whole or not at
// all, and a packet sees the flow tables of before or of after it.
package ofp
