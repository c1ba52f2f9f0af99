// Package nxos sets up Cisco Nexus switches over their command line: the TPID of ports
// (switchport dot1q ethertype), MTU, read-back, undo. Their VLAN mapping cannot compare and
// replace. NX-OS has no commit: each line takes effect at once, and none is ever saved.
//
// Texts: the TPID is lost in hardware after a reload and, before 9.3(5), a link flap, while
// it stays configured, and setting it again needs "no switchport dot1q ethertype" first
// (CSCvw27705, CSCvu24785,
// https://www.findbugzero.com/operational-defect-database/vendors/cisco/defects/CSCvw27705).
// A port with its own EtherType takes frames with any other for untagged ones (Catalyst 6500
// Software Configuration Guide, Configuring a Custom IEEE 802.1Q EtherType Field Value,
// which is the text that states it for Cisco's command).
//
// No timer takes a change back: checkpoint and rollback
// (https://cisco.com/c/en/us/td/docs/dcn/nx-os/nexus3600/105x/configuration/system-mgmt/cisco-nexus-3600-switch-nx-os-system-management-configuration-guide-105x/m-configuring-rollback.html)
// restore the whole running configuration, other users' changes included, so that csig
// undoes its own lines instead.
package nxos
