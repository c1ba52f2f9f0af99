// Package qos is what the QoS policies of several vendors' command lines have in common: a
// classifier matches the 802.1p priority and a range of VLAN IDs of a tag, a behavior gives
// it another VLAN ID, a policy binds them, and a port has one policy for what it sends. A
// Dialect has a vendor's words, a View is what a switch has configured, and a Script is
// lines that change it. Objects are csig's by their names, which begin with Prefix.
package qos
