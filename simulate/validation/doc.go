// Package validation compares the simulator and its controls with what others have found: drafts, closed forms, other simulators.
// Each comparison is an oracle that is pinned: where its figures are from, in which form, and how near the simulator has to come.
// DEVIATIONS.md has what is not near, and what is known of the cause. It has tests and nothing else.
//
//	go test ./simulate/validation -run Oracles -v
//
// prints the table. The HPCC authors' results page takes hours: -run Oracles -v -timeout 24h -args -results; RESULTS.md has what came out.
package validation
