// Package gnmiset sets switches up by gNMI: what of a switch's configuration csig writes is
// one Set, which is one transaction (gNMI specification §3.4.3). A Model says where a
// platform's models have it; package setuponly decides what to write.
//
// # Confirmed commits
//
// Where the target knows the commit-confirmed extension (openconfig/reference
// rpc/gnmi/gnmi-commit-confirmed.md 0.1.0), each Set is a commit, which is read back over a
// new connection and then confirmed there: the target takes a change back that cuts csig off.
//
// Capabilities do not list extensions, and a server whose protocol buffers lack one does not
// see it in a request. So csig confirms a commit that does not exist, in a Set that has
// nothing else. A target that knows the extension answers FAILED_PRECONDITION where no commit is
// pending, INVALID_ARGUMENT where one is (§3.2.2), and then refuses an empty Set, too (§3.2.1).
// No text says what others do; a Set of nothing has nothing to change.
//
// Another process sees what is on trial only by asking. It is asked wherever what reads is not
// what it was when no commit was pending, so that a steady switch has no Set in its log.
//
// The driver is no vendors.AutoReverter: its agent is, which restores the configuration that
// it had.
package gnmiset
