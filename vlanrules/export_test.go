package vlanrules

import "github.com/csig-agent/csig/quantize"

// WithBuckets sets which S tags of this signal can carry: bit v of inUse is
// S=v. A domain whose senders start at 30 has no S=31; one that fills only
// eight buckets needs an exact table a quarter as long.
func WithBuckets(sig quantize.Signal, inUse uint32) Option {
	return func(c *Compiler) {
		if sig.Known() {
			c.buckets[sig] = inUse
		}
	}
}

// Prefixes is prefixes.
func Prefixes(first, last uint16) int { return prefixes(first, last) }
