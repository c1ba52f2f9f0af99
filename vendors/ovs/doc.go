// Package ovs is the driver for bridges of Open vSwitch, with 0x88a8 as CSIG's
// TPID. It speaks OpenFlow 1.4 on the bridge's own management socket and asks
// the database for the little that OpenFlow does not tell, on the switch or
// through SSH; it runs no program. docs/ovs.md is the operator's page.
//
// # How frames come here
//
// What a bridge sends out by NORMAL cannot be looked at any more: the action
// ends at the port (ovs-actions(7), Output to Standard Ports). So frames are handed to csig's first
// table with their egress port in register 15:
//
//   - a bridge whose flows a controller or an operator writes does so itself:
//     load:PORT->NXM_NX_REG15[],resubmit(,60) in place of output:PORT;
//   - for a bridge that switches by NORMAL, a bridge of csig's own stands
//     between it and its ports. Each port of the first is a patch port that
//     leads to a port of the second; external_ids:csig-port of the patch's far
//     end names it, and csig writes the flows that join the two.
//
// Probe reads the flows of others. A NORMAL among them, or FLOOD or ALL, is a
// refusal; an output that goes past csig's tables a degradation. An update looks
// again every five seconds, and says what has changed (UpdateResult.Facts).
//
// Not built: replacing NORMAL by flows that learn (ovs-actions(7), learn). It
// needs no second bridge, but it is a switch of its own, without spanning tree,
// LACP and the VLAN modes of ports, where the second bridge leaves all of that
// to Open vSwitch. Patch ports cost nothing in the datapath: the flows of both
// bridges become one (openvswitch/ovs ofproto/ofproto-dpif-xlate.c,
// patch_port_output).
//
// # The tables
//
//	60 entry     tags of ports that update or strip go on to 65; the rest leaves
//	61 lease     one flow with a hard_timeout, renewed by every update → 62
//	             without it → 63
//	62 live      the signal: each port's ternary entries
//	63 stale     the fallback, constant
//	64 act       what was found in register 14: leave, or → 65
//	65 classify  what of the tag is to be read: → 61; is it CSIG's? → 64
//
// From 60 a frame goes on to 65 through a group with one bucket. What a bucket does
// ends with it, also where the frame is parsed again (ofproto-dpif-xlate.c,
// xlate_group_bucket): the times that it is do not add up where a list of actions
// hands it over more than once, and what follows has it as it was. A clone ends the
// list there (clone_xlate_actions; tried with 3.1).
//
// No match sees a TPID (ovs-fields(7), VLAN: "no version of OpenFlow provides a
// way"), and an ordinary VLAN's tag must never change. But with vlan-limit 1,
// the default, the ethertype behind one tag is the TPID of the next. So a frame
// whose tag the signal would change gets one more in front and is parsed again; then
// that tag is taken away. Frames are parsed again after pop_mpls
// (ofproto-dpif-xlate.c, recirc_for_mpls); push_mpls and pop_mpls together do
// nothing to the frame. Frames without a tag are not recirculated.
//
// Before all that a frame is parsed again as it is. Open vSwitch keeps two tags of
// a frame between two parsings (lib/flow.h, FLOW_MAX_VLAN_HEADERS). Where NORMAL,
// or a flow, has put one on, csig's would be the third, and the innermost would be
// lost; where one was taken away, the next is not parsed yet. No match tells such
// frames from others.
//
// A tag behind another is seen when its TPID is the ethertype. The TPID of the
// outer one is found out as above; then that tag is set aside in register 13, and
// put back with its TPID at the end. Behind two tags nothing is seen.
//
// All in all a frame whose tag stays is parsed once more, one with a tag that is
// changed or could be three times, and one with a CSIG tag behind another four times.
// The userspace datapath allows six (lib/dpif-netdev.c, MAX_RECIRC_DEPTH).
//
// To a patch port a frame is parsed once more where the flows have other tags of it
// than there are: behind the tag that was put in front for a while the first one is
// not parsed any more, and one that was put back is the second that Open vSwitch
// keeps, of which the next bridge would lose the other by a push_vlan. The times of
// bridges in a row add up, and pkt_mark brings from one to the next how many there
// were (recirculation.go): three in the first leave three, which is enough for one tag, and
// four or five, or two bridges, none.
//
// # What is cached
//
// Whatever pushes or pops a tag is cached for all bits of that tag (lib/flow.c,
// flow_push_vlan_uninit; lib/odp-util.c, commit_vlan_action), and so is a new tag to
// the datapath each time that this is done. It is done once:
//
//   - isClass: of a frame T and S alone are read. Where the signal leaves such
//     tags, the frame leaves, whatever its TPID is, and all of them share the flow.
//   - isTag: of the others the tag is read as a whole, once, by which there are two
//     copies of the frame, with the tag as it is and with the tag changed (split). Behind
//     the constant tag that is put in front of both their tags are not read any more:
//     by the TPID that shows there one copy leaves and the other is dropped.
//
// Ports that strip, or are closed, and frames that other bridges parse again as well,
// come to isTag at once. A tag behind another is not read before the last pass.
//
// # Changes
//
// Every Update is one bundle, atomic and in order, its answers waited for: the
// entries that differ, and the lease. A packet sees the tables of before or of
// after (ovs-ofctl(8), --bundle). The signal is looked up at isClass and at isTag, each
// with the same registers whatever it is, and nothing of what it said is in a register
// afterwards: a change revises the flows of these two in place, and the others stay.
//
// The datapath caches what tables said. After a change ovs-vswitchd goes through
// that, at the latest 5 ms after it last began to and at once when it is through
// (ofproto/ofproto-dpif-upcall.c, udpif_revalidator): until then frames have the
// value of before. Two such rounds are the longest wait, and a round takes as
// long as "dump duration" of ovs-appctl upcall/show says. Flows that are met less
// often than min-revalidate-pps, where a round takes longer than half of
// max-revalidator, are dropped instead of revised, which is sooner.
// revalidator/wait is no proof: the round that it waits for may have begun before
// the change.
//
// The userspace datapath before 2.17.8, 3.0.5, 3.1.3 and 3.2 revises the wrong
// flow where two in the cache overlap, because it looks for the one that it means
// by a frame that it fits and not by its name (commit 21410ff800cc,
// "dpif-netdev: Fix dpif_netdev_flow_put"). The other one keeps the value of
// before for as long as there is traffic, lease or not: ovs-vswitchd takes it for
// revised. Flows overlap when what was looked at for one answer is less than for
// another. So a tag that stays as it is is read as a whole, like one that is
// rewritten (readTag), and no two flows of the last pass overlap. TestCachedFlows
// finds hundreds of them with the old value where this is left out.
//
// Where a table has no room for a bundle (flow_limit), ports change one by one,
// the most congested first; one without room goes straight to the fallback.
//
// The lease has whole seconds, of which ovs-vswitchd looks once a second.
//
// # Ownership
//
// csig's flows have its cookie. A flow without it in csig's tables, or one of
// csig's that another process changed or deleted, is restored within a second, and
// reported; tables that another application uses, and that hold nothing of csig, are
// refused; a table-miss flow that sends frames on as csig's does is no such use.
// Flows of other tables are never touched. The setup is recorded in the note of a
// flow that no frame meets, and found in whatever tables it is: when others are
// wanted it moves there, unless flows still hand frames to the old ones.
//
// The process that programs a bridge holds a lock of the database (lock.go), so that
// there is one writer at a time.
//
// When csig goes (Remove), what hands frames over and what sends them on stay:
// the bridge forwards as before, and tags pass untouched. When ovs-vswitchd is
// restarted every flow is lost: frames do not leave (the bridge's fail_mode is
// secure) until the agent has restored them.
//
// # What it needs
//
//   - Open vSwitch 2.8 or newer: 0x88a8 is parsed since then (NEWS, v2.8.0).
//   - OpenFlow 1.4 allowed on the bridge (protocols, if it is set at all).
//   - other_config:vlan-limit unset, or 1.
//   - The right to open the sockets of /var/run/openvswitch.
//
// Tested with Open vSwitch 3.1 and its userspace datapath; that the kernel's
// does the same with the same actions is assumed.
//
// # Limits
//
//   - R (the DEI) of a tag that is rewritten is lost: bit 12 of vlan_tci says
//     that there is a tag (ovs-fields(7)). So is the DEI of a VLAN tag in front.
//     draft-00 §4.1.1 reserves R. The userspace datapath loses that of every
//     outermost tag, a VLAN's too and without csig: from a device of the
//     kernel's it has the tag beside the frame, and puts it back without the bit
//     (openvswitch/ovs lib/netdev-linux.c, netdev_linux_batch_rxq_recv_sock, and
//     lib/packets.c, eth_push_vlan).
//   - A tag with an MPLS header behind it passes untouched.
//   - An ordinary VLAN's tag of TPID 0x88a8 that is the last one is CSIG's to the
//     flows. The domain's VLANs do not use 0x88a8; Probe says which ports and flows
//     put such tags on.
//   - For IP, frames with a tag make one cached flow for each TTL and DSCP that
//     they have.
package ovs
