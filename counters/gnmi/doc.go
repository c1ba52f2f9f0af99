// Package gnmi reads the egress counters of a switch from its gNMI target, in the
// OpenConfig models (package protocol/gnmi/oc has the part of them that is looked at). It
// implements counters.Source.
//
// # How the target is asked
//
// By a STREAM subscription: SAMPLE for the counters, ON_CHANGE for oper-status and speed.
// Targets refuse what they do not implement, so a Source tries, until the target accepts:
// the leaves it needs; the containers around them; status sampled too; the target's
// shortest interval instead of the one configured; TARGET_DEFINED; and at last Get at
// every reading. Each is tried for the ports by name and for all interfaces, since one
// unknown name makes some targets refuse them all, while others take no wildcards.
// The encoding is the first of PROTO, JSON_IETF and JSON that the target has.
// Config.Mode pins the mode, and Info reports what came of it.
//
// A stream that ends, or is silent for 30 s, is opened again, with a backoff
// that grows and is randomised. A target that refuses the credentials is left in peace
// for Config.MaxBackoff.
//
// # When it was
//
// Sample.At is the target's timestamp on out-octets, and Sample.Local the arrival by our
// clock. gNMI §2.1 means the timestamp to be that of collection; many targets stamp the
// instant of sending and have the values from a cache. So samples are not Live, and a
// counters.Refresh finds out. Updates that are older than
// what is known are dropped, until there are so many, in order among themselves, that the
// target's clock must have been set back.
//
// Octets and packets of a sample belong together. Where the target sends each leaf by
// itself, a sample is complete when its last leaf has arrived, or nothing more comes
// for a grace period of a quarter of the interval, at most 100 ms.
//
// # Silence
//
// A target need not send what has not changed, so an idle port falls silent.
// Heartbeats are asked for. Without any, the values of a port that the target has said to
// stand still are taken to hold while the counters of other ports keep
// arriving with later timestamps, for ten intervals, unless this target has been seen to
// send unchanged values. Any other silent port is asked about, by Get or else by a ONCE
// subscription: one that was busy may be no longer sampled. What then is still unknown is
// ErrSilent for that port, after five intervals, and never free bandwidth.
//
// # What a target can make us do
//
// A reading ends by itself. Bytes and work a second, the size of a message, the parts of it and
// the depth of JSON are bounded (limits.go of protocol/gnmi), and the target's texts are made fit
// to print where they enter.
//
// # Octets, and what a packet costs beyond them
//
// out-octets is ifHCOutOctets by its reference, which counts an Ethernet frame from the
// MAC header to the FCS (RFC 3635 §3.2.2; the model's text says "including framing
// characters"). Preamble and gap are not in it: Sample.Overhead is 20.
//
// Packets are out-pkts, or where a target does not have it the sum of out-unicast-pkts,
// out-multicast-pkts and out-broadcast-pkts. Those three include, by the model's words,
// packets "that were discarded or not sent"; where out-discards moves, the
// sample is Degraded and says so.
//
// # Capacity
//
// lag-speed, negotiated-port-speed or port-speed, the first that is there and known. A
// speed that the models do not have is Speed 0, and never a guess.
//
// # Epochs
//
// Sample.Epoch changes when last-clear does, when a counter comes back that the target had
// deleted, and when the packets are read from other leaves. A counter that was reset
// without any of these goes down, which the estimator sees.
package gnmi
