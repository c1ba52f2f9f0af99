// Package eos drives Arista switches over their command line, by DirectFlow: a flow
// matches the port that a frame came in by, the VLAN ID with a mask and the 802.1p
// priority of its tag, sets another VLAN ID and outputs to a port. A flow owns forwarding
// and does not see by which port a frame leaves: it is written once for each of the
// forwarding flows that the operator declares.
//
// A port's flows are direct values, in one of a few priorities. A change adds the flows of
// the new value at a priority that no flow of csig's has, reads from the switch that they
// are in hardware, and then takes the old ones out, the lowest priority first: a tag has
// the old value or the new one throughout. Both are configuration sessions, whose lines
// take effect together when they are committed, and whose difference to the running
// configuration is read before. Nothing is ever saved.
//
// Read for it: DirectFlow, https://arista.com/en/um-eos/eos-directflow; configuration
// sessions, https://arista.com/en/um-eos/eos-configure-session; Configurable TPID,
// https://eos.arista.com/author/8859-pandurangan/; flows as commands and their status,
// https://github.com/aristanetworks/DirectFlowAssist (directflow_assist/DirectFlowSwitch.py,
// tests/feature/show_directflow_detail.txt); masks of VLAN IDs,
// https://github.com/aristanetworks/EosSdk (eos/types/directflow.h). The dead-man: event
// handlers, with trigger on-counters, poll interval, condition and action bash FastCli,
// https://eos.arista.com/arista-custom-event-handler-to-take-action-based-on-interface-utilization/
// and the configurations that https://github.com/aristanetworks/avd is tested with; that a
// condition may be a command's output (bashCmd."…" > N) is shown by configurations alone.
package eos
