// Package memory has a switch in memory for tests: frames in, ordered rules, frames out,
// with counters and with faults that switches were seen to have. It forwards as a learning
// bridge with csig's rules where frames leave, driven by its [Driver], which does not know
// of the faults: they show on the wire alone. A Pipeline in its place has any tables of
// rules.
//
// It does no I/O, starts no goroutine and reads the time package's clock, which is virtual
// in a bubble of testing/synctest.
package memory
