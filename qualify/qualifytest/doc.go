// Package qualifytest has a software switch for tests of package qualify. Its data
// plane forwards frames in Go, and can have faults built in that switches were seen to
// have. It is driven as any device is, by a [vendors.Driver], which does not know of
// the faults: they show on the wire alone.
package qualifytest
