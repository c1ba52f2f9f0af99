// Package memnet has connections in memory for tests: streams that a net.Listener accepts, and
// datagrams with addresses, loss and delay. Whoever waits for them waits durably, so that tests
// run on the virtual time of testing/synctest; deadlines and errors are those of package net.
// What belongs to a bubble is made in it: the listener, the packets, and what dials them.
package memnet
