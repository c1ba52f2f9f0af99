// Package openflow drives hardware switches that forward by the flows of OpenFlow
// 1.3 (ONF TS-023). The operator's flows choose the port of a frame and hand it
// over to csig's tables with write_metadata and goto_table; csig's flows compare,
// replace and output (docs/openflow.md).
//
// Hardware takes no bundles. What an update changes runs as ordered steps, each a
// batch of messages with one barrier behind it, after each of which a frame has the
// old or the new value (docs/rules.md).
package openflow
