// Package linux reads the egress counters of Linux network interfaces: every
// port in one or two netlink dumps, without a system call or an allocation per
// port.
//
// # Which counter
//
// The kernel keeps two, and either can be the wrong one. The interface's own
// counter (RTM_GETSTATS) is what the driver handed on. On hardware it counts
// frames on the wire. On a virtual device such as veth it counts what the
// stack gave it, and that may be a super-frame: one packet, with one set of
// headers, for up to some forty segments. The root qdisc's counter
// (RTM_GETQDISC) is what left the queue, and counts a super-frame as its
// segments. So the source takes, per port, the first of these that holds:
//
//  1. hardware: the interface's counter;
//  2. a virtual device whose segmentation offloads are off, so that it never
//     sees a super-frame: the interface's counter;
//  3. a virtual device with a root qdisc that counts, which every shaper is:
//     the qdisc's counter;
//  4. the interface's counter, and the samples are Degraded, with the command
//     that would make them exact.
//
// Neither counts an 802.1Q or 802.1ad tag that travels beside the frame instead
// of in it. Where Port.Tagged says that such frames are to be expected, the
// samples say that they are 4 bytes short for each.
//
// One kind of super-frame escapes the qdisc too: one that a virtual machine's
// tap or a packet socket handed in counts there with the bytes of its segments,
// but as no packet at all (measured on Linux 6.18), since the kernel does not
// believe the number of segments it was given. Where such traffic matters,
// switch the offloads off: the interface's counter is then exact.
//
// Linux counts a frame without its FCS (Documentation/networking/statistics.rst
// in the kernel's tree), so a packet costs 24 bytes more on an Ethernet wire
// than Octets says: FCS 4, preamble 8, gap 12.
//
// # Capacity
//
// Hardware is asked for its link's speed through ethtool, also a port of a switch
// chip behind another interface. veth and other virtual devices answer that
// question too (10 Gb/s, always), which is fiction and ignored. Where a tbf is the
// root qdisc, its rate is the speed, unless the link itself is slower. What remains
// is unknown, which is Speed 0 and never a guess.
//
// The capacity is the smaller of this speed and the configured one
// (counters.Capacity), or the configured one alone where it overrides. Where it is
// that of a tbf, which counts frames without FCS, preamble and gap unless its
// overhead parameter is 24, the samples are Degraded.
//
// # Freshness
//
// What the kernel counts itself is current at each reading, and its samples are
// Live. Drivers of hardware may answer from memory (many fetch their counters each
// second), as may bonds and the ports of a switch chip behind another interface:
// their samples are not, and a counters.Refresh learns how old they are.
//
// # Changes
//
// Link and qdisc changes arrive as multicast notifications and cost nothing
// while there are none. The kernel may hold back a carrier loss for up to a
// second; no frame leaves through that port meanwhile, so none carries the
// stale signal. An interface or qdisc that is replaced starts a new Epoch.
package linux
