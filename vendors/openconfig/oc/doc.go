// Package oc has Go types for the part of the OpenConfig configuration that csig writes:
// TPID and MTU of interfaces, and ACL sets, in whose descriptions it keeps its record.
// They are generated from openconfig-interfaces, openconfig-vlan and openconfig-acl less
// what csig-needs.yang takes out.
//
// The models are not in this repository. To generate the code again, clone
// openconfig/public, say where it is, and run
//
//	OPENCONFIG_PUBLIC=/where/you/cloned/it go generate ./vendors/openconfig/oc
package oc

//go:generate go run ../../../counters/gnmi/oc/gen -models $OPENCONFIG_PUBLIC -modules openconfig-interfaces,openconfig-vlan,openconfig-acl -config -schema ../octest/schema.go
