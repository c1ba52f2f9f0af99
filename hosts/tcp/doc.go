// Package tcp gives the TCP connections of a host CSIG tags, without a change of applications or of the kernel
// (draft-00 §4.2 to §4.4, §6.3.3). BPF programs do it, which are in tcp.bpf.c:
//
//   - csig_insert, at tcx egress of the host's network interface, inserts tags of TPID 0x88a8, one for a whole
//     super-frame.
//   - csig_strip, at tcx ingress, removes the tag of what comes in, and keeps the newest of each T.
//   - csig_reflect, at a control group's sockops, agrees with the peer on a TCP option by SYN and SYN-ACK, sends
//     the newest tag with every ACK that carries no data, and keeps what the peer reflects.
//   - csig_insert gives datagrams of UDP a tag, too, where their program asks by SO_PRIORITY, and csig_strip writes the tag of
//     one that comes into its mark and into a map of flows (udp.h).
//   - csig_listeners, an iterator, has servers that ran before agree, too; csig_list, another one, lists the
//     connections for user space.
//
// The option has the kind of the fleet file, a length as RFC 9293 counts it, ExID 0xC516 where the kind is one
// for experiments (RFC 6994), and in all but SYNs the tag's two bytes behind its TPID.
//
// # Congestion control
//
// Where the fleet file has control: csig, csig_reflect hands a connection over at its first valid signal: to a control
// of struct_ops, which is in control.bpf.c, by TCP_CONGESTION, with the previous one's name kept. That control is cubic
// by the kernel's own functions. Beside it a share of the room that the signal shows is taken: at a
// connection's start and after it was idle (draft-00 §8.1.3), and later once in the time that its effect needs to be in
// the signal (§8.1.2). Room that did not make the connection faster is not taken again for a while, so a
// reflector that lies brings it one share now and then.
//
// The control gives a connection back by itself when no signal has come for a second. So it does when csig is gone,
// whose struct_ops link goes with it: the kernel keeps the programs for as long as a socket is under them.
//
// # What keeps connections alive
//
// A host removes tags of frames that come in as long as csig runs there; without csig the kernel drops them, and
// a path may do so, too. So a connection sends tags only while reflections come back: for 200 ms after the last
// one. Else one frame is a probe, first an ACK that carries no data, then what leaves a second later, and after each
// probe in vain twice as long. A reflector forgets a tag after 500 ms.
//
// All that is known of a connection is in its socket's storage, and goes with the socket. The programs, their maps
// and links are held by the process alone: they go with it, by whatever end. With --pin they have names in a BPF file system,
// and stay; the next process replaces the programs at their links, as a changed fleet file does, and takes the maps over.
package tcp
