// Package mesh has hosts probe each other with tagged UDP packets, and says which egress ports limit which
// pairs of hosts (draft-00 §8.3, §8.2).
//
// A probe is an ordinary UDP datagram with the payload of package probe and, behind the Ethernet addresses, a
// CSIG tag, so that it takes the path of a flow. A trial of a pair is a tagged probe between two untagged ones,
// which tell what happens to the tagged one alone. The host that a probe reaches answers each with a datagram
// to the mesh's port, without a tag, in network byte order:
//
//	 0  magic     4 bytes   "CSGM"
//	 4  version   1 byte    1
//	 5  flags     1 byte    bit 0: Valid, the probe had a tag; bit 1: Wide, of 8 bytes; the others 0
//	 6  run       8 bytes   the probe's
//	14  sequence  8 bytes   the probe's
//	22  tag       2 or 6    what the tag had behind its TPID, as it arrived; 0 where not Valid
//	 …  received  8 bytes   Unix time in ns, by the answering host's clock
//	 …  mac      16 bytes   the first of HMAC-SHA-256 with the mesh's key over all before
//
// A Prober is what one host does, on any Packets; Sockets are those of a Linux machine: packet sockets, or ordinary ones beside
// csig host run. A Collector takes what
// all hosts found out.
package mesh
