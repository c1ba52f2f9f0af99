// Package qualifytest has what the bench of package qualify is tested at: the switch of
// package memory at cards in memory, the same one at real cards in network namespaces, a
// bridge of the kernel, and the fakes of switches with a command line.
package qualifytest
