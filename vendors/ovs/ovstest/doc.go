// Package ovstest starts a real Open vSwitch for tests: ovsdb-server and
// ovs-vswitchd with a database and sockets of their own, the userspace datapath,
// in the network namespace that the test gives it, ended with the test. It runs
// on Linux only. Hostile peers that take their places run anywhere.
package ovstest
