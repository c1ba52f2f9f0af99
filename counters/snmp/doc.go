// Package snmp reads the egress counters of a switch from its SNMP agent (SNMPv2c
// and SNMPv3). It implements counters.Source.
//
// # What is read
//
// Of each port, in one PDU together where the agent takes that many: the octets sent (ifHCOutOctets, or
// ifOutOctets with Sample.Bits 32), the packets sent (unicast, multicast and
// broadcast, each from ifXTable's 64-bit counter or from the 32-bit one), the
// speed, ifOperStatus, ifCounterDiscontinuityTime and ifName; and sysUpTime and
// ifTableLastChange once a PDU. RFC 2863 §3.1.6 lets an agent offer 64-bit octets
// beside 32-bit packets, so the width is chosen counter by counter. Packets that
// wrap at 32 bits are widened here, one by one, for the sum of three counters that
// wrap separately does not wrap at any round number.
//
// A reading is what it says or it is an error. A missing instance, a value of the
// wrong type, a reply with fewer bindings than the request or with other objects
// in them is Sample.Err of the ports concerned, and never a zero.
//
// # Which port an index means
//
// Ports are configured by ifName (by ifDescr where the agent has no ifXTable). The
// name travels in the same PDU as the counters, or follows them in a later one, so that a reading is never
// attributed to a port that only inherited the ifIndex. A port that moved is
// looked up again within the same Read. Where a name appears twice, because the
// agent still lists an interface that was removed, the one that is up is meant.
//
// net-snmp on Linux keeps ifName and the counters of an interface that is renamed while
// it runs, and puts the new name into ifDescr alone. There ifDescr travels along, and
// one that is a name, and another one, is ErrRenamed. (Hardware that ifDescr describes
// in words cannot be checked like that.)
//
// With Config.Recheck names, status, speed and discontinuity are read less often,
// which halves the work for the agent. It is honoured only where the agent has
// ifTableLastChange, which then guards every PDU; and what it delays is exactly
// that: a link that goes down, or changes its speed, is seen up to Recheck late.
//
// # Epochs
//
// Sample.Epoch changes when ifCounterDiscontinuityTime does, when sysUpTime says
// that the agent restarted (a wrap after 497 days is no restart; nor is an agent
// that caches sysUpTime), when the port got another ifIndex, and when its counters
// are of another kind than before.
//
// # When it was
//
// Sample.At is the midpoint between sending the request whose answer carried the
// port's octets and receiving that answer. Retries use a new request-id and
// answers to earlier ones are thrown away, so a late answer never gets the time of
// a newer question. sysUpTime of the same PDU is in Reading, but with its
// resolution of 10 ms it is the worse timestamp on any network where the round
// trip is shorter than that. Neither says how old the agent's own numbers are:
// agents cache.
//
// # Octets, and what a packet costs beyond them
//
// ifHCOutOctets counts from the MAC header to the FCS (RFC 3635 §3.2.5), but not
// the 20 bytes of preamble and gap: Sample.Overhead is 20. net-snmp on Linux
// reports the kernel's numbers, which have no FCS: 24. It is recognised by
// sysObjectID 1.3.6.1.4.1.8072.3.2.10 together with a sysDescr that starts with
// "Linux "; the latter keeps network operating systems apart that run net-snmp in
// front of hardware counters. Config.Overhead overrides it. That kernel also
// counts a super-frame (GSO) as one packet, which an agent does not report.
//
// # Packets that were counted but not sent
//
// RFC 2863 defines ifOutOctets by what left the interface, but the packet counters
// by what higher layers asked to be sent, with what was then dropped still in them.
// By the letter the frames on the wire are packets − ifOutDiscards − ifOutErrors;
// the octets need no correction. In practice most agents hand out the MAC's counter
// of good frames, from which nothing must be subtracted. A wrong guess costs the
// overhead of each dropped frame, in the one direction (too little bandwidth
// advertised) or the other (too much).
//
// So it is not guessed. Discards says which kind the device is, and by default
// (DiscardsLearn) the agent has to show it: more discards and errors than packets
// prove that packets exclude them; fewer octets than 60 a packet prove on Ethernet
// that packets include some. Until one is proven nothing is subtracted, which errs
// on the side of advertising too little, and a sample whose window saw discards or
// errors says so in Degraded. A port without both columns says so always. net-snmp
// on Linux is known to exclude them.
//
// # How it is read
//
// By Get, with 128 bindings a PDU. tooBig halves them; so does silence to a large PDU from
// an agent that answers a small one, which is how lost fragments look. genErr and
// damaged replies are narrowed down to the port that causes them; ports that are read in
// single bindings and not at once, three times in a row, show that PDUs are too large.
//
// Of an agent that takes fewer bindings than a port has columns, each port is read in
// parts of 8, 4, 2 or 1. Octets and packets come first, and in the same part down to 4.
// In smaller ones octets are read before the packets and after them: the same value shows
// that no refresh came between them, and another one makes the port read once more. Of an
// agent that counts all the time they differ again; then Sample.At and Sample.Within span
// all of these parts. Discontinuity, name, sysUpTime and ifTableLastChange come last: they
// were seen after the reading before, too, so what is unchanged was so in between. What
// has changed makes the port read once more.
//
// All goes through one socket a device, one request at a time: agents are mostly
// single-threaded, and a request that queues behind another has no useful midpoint.
//
// gosnmp encodes the requests, and does SNMPv3 entirely. SNMPv2c answers are decoded
// here, into memory that is reused. gosnmp's own decoder keeps up with one agent (the
// entrant "library" of BenchmarkColumn512: 0.94 to 0.98 of a bare Get, ours 0.76 to
// 0.87). It does not keep up with a fleet. In BenchmarkFleet1000x64/snmp with it, readings
// come too late for 1,000 devices a second, as each packet is formatted for a logger that
// is not there. Built with the tag gosnmp_nodebug it takes 60 % of a core where ours
// takes 25 %, is 50 ms late at p99 where ours is 6 to 10 ms, and allocates 2,300 times a
// reading where ours does 6 times. It also takes eight bytes for a TimeTicks or a
// Counter32, so that a damaged value is a number.
package snmp
