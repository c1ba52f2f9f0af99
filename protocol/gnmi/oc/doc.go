// Package oc has Go types for the part of the OpenConfig models that csig knows: the counters,
// status and speed of interfaces, their TPID and MTU, and ACL sets, in whose descriptions csig
// keeps its record. They are generated from openconfig-interfaces, openconfig-if-ethernet,
// openconfig-if-aggregate, openconfig-vlan and openconfig-acl less what csig-needs.yang
// takes out.
//
// What is both configuration and state has the path of the configuration, and that of the state
// as its shadow path.
//
// The models are not in this repository. To generate the code again, clone
// openconfig/public, say where it is, and run
//
//	OPENCONFIG_PUBLIC=/where/you/cloned/it go generate ./protocol/gnmi/oc
//
// The code carries no YANG schema: unpacking one would cost each start of the
// command some 10 ms and 5 MB (measured), and nothing of csig's validates with it. The tests' target
// in vendors/openconfig/octest does, and has it.
package oc

//go:generate go run ./gen -models $OPENCONFIG_PUBLIC -schema ../../../vendors/openconfig/octest/schema.go
