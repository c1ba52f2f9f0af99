package api

import (
	"github.com/csig-agent/csig/vendors"
)

// Facts is what a device can really do.
type Facts struct {
	Format string `json:"format"`
	vendors.Facts
}

// FactsOf is the form of facts that travels: lists of nothing are empty, not null.
func FactsOf(f vendors.Facts) Facts {
	f.Rules.Reserved, f.TagDepths, f.Ports = listed(f.Rules.Reserved), listed(f.TagDepths), listed(f.Ports)
	f.Notes, f.Off, f.PortIssues = listed(f.Notes), listed(f.Off), listed(f.PortIssues)
	return Facts{FactsFormat, f}
}

func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
