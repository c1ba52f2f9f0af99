// Package gnmiset sets switches up by gNMI: what of a switch's configuration csig writes is
// one Set, which is one transaction (gNMI specification §3.4.3). A Model says where a
// platform's models have it; package setuponly decides what to write.
//
// # Confirmed commits
//
// Where the target knows the commit-confirmed extension (openconfig/reference
// rpc/gnmi/gnmi-commit-confirmed.md 0.1.0), each Set is a commit that is confirmed over a
// new connection, which reads it back first: a change that cuts csig off takes itself back.
// Capabilities do not say whether a target knows the extension, and gNMI has servers pass
// over extensions that they do not know. So the confirmation of a commit that there is not
// is sent, in a Set that has nothing else: a target that knows the extension answers
// FAILED_PRECONDITION (§3.2.2), and any other does nothing.
//
// While a commit waits, the target refuses every other Set (§3.2.1), of any client, and a
// commit cannot be amended (§2): a second change before an auto-revert is confirmed cancels
// the first one and commits both.
package gnmiset
