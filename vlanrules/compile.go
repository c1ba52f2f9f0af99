package vlanrules

import "github.com/csig-agent/csig/quantize"

// Compiler compiles intents for one device. It keeps scratch space and is not
// safe for concurrent use.
type Compiler struct {
	caps   Caps
	layout quantize.Layout
}

// NewCompiler returns a compiler for a device with these capabilities.
func NewCompiler(caps Caps, layout quantize.Layout) *Compiler {
	return &Compiler{caps: caps, layout: layout}
}

// Result is what Compile found: the table wanted, the operations that lead
// there from the observed one in a safe order, and how faithful it is.
type Result struct {
	Table   Table
	Ops     []Op
	Verdict Verdict
}
