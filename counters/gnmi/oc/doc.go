// Package oc has Go types for the part of the OpenConfig interface models that
// csig reads, for tests: what a target has on the wire is made from them. They are
// operational state, generated from openconfig-interfaces,
// openconfig-if-ethernet and openconfig-if-aggregate less what csig-needs.yang
// takes out.
//
// The models are not in this repository. To generate the code anew, clone
// openconfig/public, say where it is, and run
//
//	OPENCONFIG_PUBLIC=/where/you/cloned/it go generate ./counters/gnmi/oc
//
// The command does without: what the types build upon would be 1 MB of every
// agent's memory (measured). Nor does the code carry a YANG schema, since nothing here
// validates with one.
package oc

//go:generate go run ./gen -models $OPENCONFIG_PUBLIC
