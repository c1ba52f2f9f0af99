// Package iosxr sets up Cisco routers with IOS XR over their command line: the Ethertype of
// tags of ports (dot1q tunneling ethertype), MTU, read-back, undo. A change is committed on
// trial, read back over a second connection and confirmed (commit confirmed, commit).
//
// Texts: the command and its values 0x9100 and 0x9200, of a main interface, for its subinterfaces
// with two tags (Cisco ASR 9000 VPN and Ethernet Services Command Reference,
// https://bxin.cisco.com/c/en/us/td/docs/routers/asr9000/software/lxvpn/command/reference/b-lxvpn-cr-asr9000/ethernet-interfaces-commands.html);
// a change on trial (https://github.com/ansible-collections/cisco.iosxr/blob/main/docs/cisco.iosxr.iosxr_cliconf.rst,
// commit confirmed: the router waits for a commit, else it rolls back);
// its confirmation from the session that gave it alone, whose end takes it back, and how
// `show configuration sessions detail` lists it (commands run on XRv9k 24.3.1:
// https://github.com/ArchRuger/CLAB-BACKUP-WORKER-v2, docs/multi-platform-restore/evidence/xr-live-facts.md);
// remarks of access lists (the same collection, cisco.iosxr.iosxr_acls_module.rst).
package iosxr
