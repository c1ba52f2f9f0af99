// Package ofp is the part of OpenFlow 1.4 that csig speaks with an Open
// vSwitch bridge: flow tables and groups changed in atomic bundles, these and port
// counters read back, and the Nicira extensions that a flow needs to write
// registers and to look a frame up again. It knows nothing of CSIG.
//
// Messages are those of the OpenFlow Switch Specification 1.4.0 (ONF TS-012,
// section 7). Extensions are those of openvswitch/ovs, include/openflow/nicira-ext.h
// and lib/ofp-actions.c. What Open vSwitch promises of a bundle is in ovs-ofctl(8),
// --bundle: it is carried out whole or not at all, and a packet sees the flow
// tables of before or of after it.
package ofp
