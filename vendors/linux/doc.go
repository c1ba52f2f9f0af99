// Package linux is the driver for switches whose ports are Linux network
// devices. It carries out compare-and-replace in the kernel's nftables egress
// hook and strips tags with a small BPF program. Driver works on the switch and
// speaks netlink: no nft or tc binary is needed. SSHRemoval removes what it made from
// any machine, with the switch's nft. docs/linux.md has what it makes, needs and refuses.
//
// # The data plane
//
// Everything is in one table, "csig" in family netdev:
//
//	set lease    { TPID, 0x8100, 0x88a8 timeout … }      empty once the agent is gone
//	map stale    { tag data : tag data }                 the fallback, constant
//	set profile  { }                                     its comment says for which profile
//	map p_swp1   { tag data : tag data }                 the signal of port swp1
//	set p_swp2   { }                                     says that swp2 strips, or passes
//	chain p_swp1   on the egress of swp1                 constant
//	chain stale                                          constant
//
// A port's chain first accepts every frame whose protocol is neither CSIG's TPID nor a
// VLAN's. Then it looks the protocol up in the lease; without a lease the frame goes to
// the stale chain and does not come back, so one frame is never judged by both.
// With a lease, one rule for each depth (0 to 4 VLAN tags in front) looks the
// tag's 16 data bits up in the port's map and writes what it finds. A tag that is not in
// the map leaves unchanged.
//
// A change of signal replaces intervals of the maps in one netlink
// transaction for all ports, and renews the lease in the same one. Frames see
// the elements of before or of after it. Every transaction names the ruleset's
// generation that the driver knows: when another process has changed nftables in between,
// the kernel refuses it, and the driver reads its table again and repairs it.
//
// # Two writers
//
// A setup becomes a typed ruleset, which is compared with what the kernel has;
// a writer writes the difference down: batch as netlink messages, script as
// input for nft -f, which people read. Either leaves the same listing. Script, Diff and Offline
// need no device.
//
// # Ownership
//
// The table carries the comment "csig v1", the lease set a comment with the
// setup, each port's map or set one with its action. A table "csig" without
// that comment is foreign. Names of ports are escaped (see portKey), so that every name is
// one that nft can print and read again. BPF programs are named csig_strip; they are
// attached to the device itself, neither through a link nor a pin, and so stay when the
// agent goes.
//
// # Cost
//
// BenchmarkForwarding and BenchmarkUpdate measure it. The egress hook with an
// empty chain is most of what an ordinary frame pays; the one rule that lets it
// go is the rest. A change of every bucket of every port costs what the kernel
// takes for the same elements, and a few per cent.
//
// # Caveats
//
// A port's chain belongs to a device's name. Where the device goes away,
// kernels before 6.16 delete the chain with it; Update puts it back as soon
// as the device is there again. Where it gets another name, kernels from 6.16
// on take the chain off it; Update puts it on the device under its new name,
// with the fallback as its only values.
package linux
