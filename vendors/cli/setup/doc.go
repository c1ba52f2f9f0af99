// Package setup is the configuration of a switch that csig can only set up, read and written
// over its command line (vendors/setuponly.Switch): the TPID and the MTU of ports, and
// csig's record. A Dialect is what platforms differ in.
//
// The record is comments of an object of csig's that has no other effect. There are two such
// objects, of which one has the record: a new one is written whole to the other before
// the old one goes, so that a session that ends between two lines loses nothing.
package setup
