// Package fabric builds small fabrics of kernel switches: network namespaces
// as hosts and switches, veth pairs as cables, bridges as the switching
// silicon, token buckets as link speeds, and kernel-paced background load.
//
// Everything is private to the process. A namespace is held by a thread and a
// file descriptor of the process that made it and has no name under
// /run/netns, so that whatever ends the process, SIGKILL included, ends the
// fabric too. [Enter] gives the program user, network, mount and PID
// namespaces of its own, which lets an ordinary user build a fabric and takes
// every child process along when the program dies.
//
// Rates are layer 1 bits per second: a frame costs its bytes plus [L1Overhead]
// (preamble, start delimiter, inter-frame gap and FCS), which is how a switch
// port of that speed behaves and how the signal of draft-00 §5.1.1 is computed
// here. The package runs on Linux only.
package fabric

// L1Overhead is what a frame costs on the wire beyond the bytes that the
// kernel counts, in bytes: preamble and start delimiter 8, inter-frame gap 12,
// FCS 4.
const L1Overhead = 24
