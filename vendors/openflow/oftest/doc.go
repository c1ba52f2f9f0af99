// Package oftest is a hardware OpenFlow 1.3 switch for tests: a proxy in front of
// a switch in memory (Memory) or a real Open vSwitch (Switch), which refuses what OpenFlow 1.3
// does not have, and does what hardware does: it reorders changes between barriers, answers before it
// has programmed, rejects late, has small tables, and loses its connection.
//
// With Options.OFDPA it is a switch of Broadcom's OF-DPA, of its fixed tables and groups.
//
// Messages, errors and table features are those of the OpenFlow Switch
// Specification 1.3.5 (ONF TS-023, section 7 and appendix A.3).
package oftest
