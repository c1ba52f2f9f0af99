// Package sonic reads egress counters from the Redis of a SONiC switch.
//
// COUNTERS_PORT_NAME_MAP of COUNTERS_DB gives each port's object, COUNTERS:oid:…
// its SAI port statistics, which syncd's flex counter brings up to date each
// FLEX_COUNTER_TABLE|PORT POLL_INTERVAL of CONFIG_DB (`counterpoll port interval`,
// 1 s unless set): sonic-net/sonic-swss orchagent/portsorch.cpp (port_stat_ids,
// PORT_STAT_FLEX_COUNTER_POLLING_INTERVAL_MS) and orchagent/flexcounterorch.cpp,
// sonic-net/sonic-utilities counterpoll/main.py. Link status is in PORT_TABLE of
// APPL_DB, members of aggregates in its LAG_MEMBER_TABLE.
//
// Speeds are in Mbit/s, and there are two: portsyncd copies to PORT_TABLE of APPL_DB the one
// that is configured on the switch, and orchagent writes to PORT_TABLE of STATE_DB the one that
// the ASIC reports (SAI_PORT_ATTR_OPER_SPEED) each time that a link comes up, "N/A" where
// there is none (orchagent/portsorch.cpp, updateDbPortOperSpeed). The second is the link's; where
// it is missing, or the link is down, the first has to do, as in `show interfaces status`
// (sonic-net/sonic-utilities scripts/intfutil, port_oper_speed_get).
//
// Nothing in COUNTERS_DB says when its values were read: they are up to one poll
// interval old, and samples are of the reading's midpoint and not Live, so that a
// counters.Refresh learns when they move.
//
// SAI_PORT_STAT_IF_OUT_OCTETS is IF-MIB's ifOutOctets (opencomputeproject/SAI
// inc/saiport.h), which counts MAC header and FCS (RFC 3635 §3.2.6); that an
// ASIC keeps to that is assumed.
package sonic
