// Package comware drives switches of HPE and H3C that run Comware, over their command
// line. A QoS policy at the outbound direction of a port is the table: a class matches
// the 802.1p priority and a range of VLAN IDs of the CSIG tag, and its behavior marks
// another VLAN ID. Classes of a policy are matched in the order in which they were
// associated, and the first that matches ends the search; a new one is the last.
//
// A change of the signal is therefore: make the class and the behavior of the new value,
// associate them behind the old, read whether they are in hardware, take the old class out.
// No class or behavior of an association changes. Each line is a change of the running
// configuration, and none is ever saved.
//
// Objects are csig's by their names, which begin with "csig-". Comware has no place for
// more: the hash of the profile is not recorded.
package comware
