// Package probe sends CSIG-tagged probe frames and reports what arrives.
//
// A probe is an Ethernet frame as a sender host would tag it (draft-00 §4.4.1)
// with a small payload that lets the receiver recognise it even when the tag
// was changed or stripped on the way:
//
//	destination(6) source(6) [VLAN tags] [CSIG tag] 0x88B5(2) payload(32) padding
//
// 0x88B5 is the first of IEEE 802's ethertypes for local experiments. The
// payload, in network byte order:
//
//	 0  magic     4 bytes  "CSGP"
//	 4  version   1 byte   1
//	 5  signal    1 byte   the T that the sender asked for
//	 6  reserved  2 bytes  0, ignored on receipt
//	 8  run       8 bytes  random, one a sender
//	16  sequence  8 bytes  from 0 up, each signal of a run on its own
//	24  sent      8 bytes  Unix time in ns
//
// The codec, the loss tracker and the capture writer work everywhere; sending
// and listening need Linux.
package probe
