// Package reflect gives programs the signals of their own flows, on a machine where csig host run runs. It takes no privilege.
//
// A receiver-driven program reads T, S, LM and how old they are:
//
//   - of a TCP connection with Signals.Connection: what its frames arrived with, and what the peer has reflected of
//     those that it sent. The kernel's option for TCP is csig's, and no program has to send anything.
//   - of UDP with Signals.Datagrams: what a flow's datagrams arrived with; or datagram by datagram, as Transport does, by
//     SO_RCVMARK.
//
// UDP has no option: a program reflects what it reads in its own payload (draft-00 §4.2.2). Transport does that, and is an
// example to copy from.
//
// # What the kernel has to do with it
//
// The programs of csig host run, at the network interface, remove tags, and write them into a socket's storage, a map
// of flows and the datagram's mark. They insert tags into datagrams whose socket asks by SO_PRIORITY, 1 for T 0, 3 for
// T 1, 5 for T 2, and 7, which takes CAP_NET_ADMIN, for T 3, towards hosts and ports that the fleet file lists (tcp: to and udp). csig host run hands over the maps, for reading
// alone, at a unix socket that anybody may open.
package reflect
