// Package oc has Go types for the part of the OpenConfig interface models that
// csig reads: operational state, generated from openconfig-interfaces,
// openconfig-if-ethernet and openconfig-if-aggregate less what csig-needs.yang
// takes out.
//
// The models are not in this repository. To generate the code again, clone
// openconfig/public, say where it is, and run
//
//	OPENCONFIG_PUBLIC=/where/you/cloned/it go generate ./counters/gnmi/oc
//
// The code carries no YANG schema: unpacking one would cost each start of the
// command some 10 ms and 5 MB (measured), and nothing here validates with it.
package oc

//go:generate go run ./gen -models $OPENCONFIG_PUBLIC
