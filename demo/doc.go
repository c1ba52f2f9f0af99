// Package demo runs csig's main job on one machine: a fabric of kernel
// switches in private network namespaces, an agent for each switch on real
// counters, real background load that moves the bottleneck from hop to hop,
// tagged probes of both signals end to end, and a judge that compares what the
// receiver read with the truth from the links' own counters.
//
// The judge shares no code with the agents but the profile's bucket tables: it
// reads the counters itself, at least five times an averaging window, and reports it
// where it could not.
package demo
