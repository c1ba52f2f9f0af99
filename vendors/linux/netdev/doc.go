// Package netdev is what the drivers of Linux switches ask of network devices, whatever
// carries out the setup: their names, MTUs and error counters, in a network namespace.
package netdev
