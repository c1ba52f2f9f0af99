// Package sonic is the driver for switches that run SONiC: compare-and-replace
// (draft-00 §6.4) by egress ACL entries that P4Orch, a part of orchagent,
// programs. It talks to the switch's Redis and, since SONiC 202605, to orchagent's ZeroMQ
// socket, on the switch or through SSH.
//
// It was never run on hardware. What it relies on was read in the projects'
// own text, or is assumed:
//
// Read, in sonic-net/sonic-swss (branches 202205 to 202605) unless it says
// otherwise:
//
//   - P4Orch takes rows of APPL_DB's P4RT_TABLE through a ConsumerStateTable
//     (orchagent/orchdaemon.cpp, orchagent/p4orch/p4orch.cpp) up to 202511. In 202605 and
//     master it is a ZmqOrch behind a REP socket, always, at
//     ipc:///zmq_swss/p4orch_zmq_swss_ep (orchagent/orchdaemon.h; no option of orchagent, -q
//     and -z among them, and no field of CONFIG_DB has to do with it), and subscribes no Redis
//     channel of that table. The folder is the host's, too (sonic-buildimage
//     rules/docker-orchagent.mk). The driver goes by P4RT_TABLE_CHANNEL's subscriber where
//     there is one, and by what answers at the socket otherwise.
//   - A message there is sonic-swss-common's BinarySerializer (common/binaryserializer.h):
//     size_t lengths of the machine, which are 64 bits and least significant byte first on
//     amd64 and arm64. What it cannot read ends orchagent; a message of another table, or
//     without a row, is never answered, and nothing after it (common/zmqserver.cpp,
//     mqPollThread). So the driver sends nothing before Redis' INFO has arch_bits:64.
//   - P4Orch takes a message's rows in their order, stops at the first failure
//     (SWSS_RC_NOT_EXECUTED for the rest), and answers all of them in one message, with the
//     status and its text as the first field of each (orchagent/p4orch/p4orch.cpp, doTask;
//     orchagent/response_publisher.cpp, publish and flush). Nothing but P4Orch writes
//     P4RT_TABLE then, what it has (dbPersistence is false), so that a row that was refused is
//     as it was before.
//   - A REP socket takes from its connections in turn, and keeps what it has received from
//     one that is gone (libzmq 4.3.4, tried): after a connection was lost the driver sends two
//     rows that P4Orch refuses, and reads the rows when both are answered. orchagent logs
//     "Failed to find P4Orch Manager for key ACL_CSIG_NO_TABLE:{}" for each.
//   - A producer adds the key to P4RT_TABLE_KEY_SET, writes the row to
//     _P4RT_TABLE:KEY and publishes on P4RT_TABLE_CHANNEL@0; a deletion is noted in
//     P4RT_TABLE_DEL_SET, up to 202511 (sonic-swss-common common/producerstatetable.cpp,
//     consumerstatetable.cpp, consumer_state_table_pops.lua, table.h). Keys are
//     fetched with SPOP, in no order: what has to be in order waits for answers.
//   - The key is the ACL table's name and JSON of the matches and the priority;
//     values are "value&mask" as HEX_STRINGs of the field's width
//     (orchagent/p4orch/acl_util.h, acl_rule_manager.cpp, p4orch_util.cpp). A
//     definition in ACL_TABLE_DEFINITION_TABLE maps P4's names to SAI's fields, stage
//     EGRESS among them, and cannot change (acl_table_manager.cpp: all attributes
//     are CREATE_ONLY); a table with entries cannot be deleted.
//   - Setting a row whose matches and priority are known changes the action in
//     place (processUpdateRuleRequest, updateAclRule): one set_acl_entry_attribute.
//   - Answers come as JSON arrays on APPL_DB_P4RT_TABLE_RESPONSE_CHANNEL with a
//     status of return_code.h (orchagent/response_publisher.cpp). Up to 202311 what
//     succeeded is written to APPL_STATE_DB; since 202405 to APPL_DB, over what was
//     asked for (p4orch.h, m_publisher), where a refused row stays as asked. The
//     driver reads APPL_STATE_DB back as the proof of a change where it is there;
//     elsewhere an answer is all there is. Rows that it finds are confirmed by asking
//     again, in every release.
//   - Since 202405 the answer comes first, and then another thread takes each row
//     away and writes it again (response_publisher.cpp, publish and dbUpdateThread).
//     The driver goes by what it was answered: for a second it waits for rows that say
//     otherwise, and then it asks for all of them again, by the answers. One that begins
//     to write waits until rows are the same in two looks 20 ms apart (that this is long
//     enough is assumed; a row that is missed all the same shows at the next check,
//     within 10 s).
//   - Since 202511 P4Orch stops a batch at its first failure and answers
//     SWSS_RC_NOT_EXECUTED for the rest, which is sent again.
//   - An answer has a status and, as its err_str, a text, which is the status where there is
//     none: SWSS_RC_SUCCESS, too. What SAI refuses begins with [SAI] there
//     (orchagent/response_publisher.cpp, return_code.h): a deletion that it refuses takes the
//     row away, and the entry stays.
//   - P4Orch takes rows from its start on, and looks at them when all ports are made
//     (orchagent/p4orch/p4orch.cpp, doTask: allPortsReady; portsyncd/portsyncd.cpp writes
//     PORT_TABLE:PortInitDone). Tables are subscribed one after the other before.
//   - swss.sh (sonic-buildimage files/scripts) flushes APPL_DB and APPL_STATE_DB
//     when the swss container starts cold (config reload and fast-reboot among that), and
//     lets unknown tables of STATE_DB stand, where the driver keeps its record.
//   - A warm restart flushes nothing. orchagent takes in the rows that are there
//     (orchagent/orch.cpp, bake), and P4Orch looks for each entry's table before it
//     has made one (orchagent/p4orch/p4orch.cpp, doTask): it refuses all entries, makes
//     the table, and leaves the rows. That the entries are then not asked for, and syncd
//     removes them from the ASIC, was not tried. WARM_RESTART_TABLE|orchagent restore_count
//     of STATE_DB tells of it (sonic-swss-common common/warm_restart.cpp); besides, the
//     driver counts ACL entries in ASIC_DB, each of which has its table's number
//     (SAI_ACL_ENTRY_ATTR_TABLE_ID, acl_rule_manager.cpp).
//   - PORT|NAME tpid of CONFIG_DB takes 0x8100, 0x9100, 0x9200 and 0x88a8
//     (sonic-buildimage src/sonic-yang-models/yang-models/sonic-port.yang). A field
//     that is deleted changes nothing (orchagent/port/porthlpr.cpp).
//   - PORTCHANNEL|NAME tpid is an aggregate's, SAI_LAG_ATTR_TPID (cfgmgr/teammgr.cpp,
//     orchagent/portsorch.cpp setLagTpid); SAI gives it to all members, now and
//     later, and 0x8100 to one that leaves (opencomputeproject/SAI
//     doc/TPID/TPID_SAI_proposal.md, LAG Member TPID Behavior). SONiC's command line
//     lets no port join that has another than 0x8100 (sonic-utilities
//     config/main.py, add_portchannel_member), nor a member's be set
//     (scripts/portconfig, set_tpid); the driver keeps to both, and refuses by name
//     what is otherwise.
//   - P4Orch gives SAI a port's own object for OUT_PORT, of an aggregate none
//     (acl_rule_manager.cpp, setMatchValue: m_port_id, where an aggregate has
//     m_lag_id). So entries are of members, which SAI's proposal for LAG and port
//     attributes permits (SAI doc/LAG/SAI-Proposal-LAG-And-Port-Attributes.doc §3.5,
//     FIELD_OUT_PORT: port as LAG member, yes).
//   - A port with entries cannot be taken out of the switch, as dynamic breakout
//     does (acl_rule_manager.cpp counts references on out_ports; portsorch.cpp tries again
//     until there are none).
//   - For its first table P4Orch has orchagent make ACL groups of the whole switch, at
//     ingress, egress and pre-ingress, and bind them; where SAI refuses one, orchagent
//     throws, which is not caught, and ends (orchagent/switchorch.cpp,
//     initAclGroupsBindToSwitch; p4orch/acl_table_manager.cpp, processAddTableRequest).
//     They stay when the table goes. The driver notes in STATE_DB that it has sent its
//     first definition, until that is answered, and sends none while the note stands.
//   - SAI_SWITCH_ATTR_EGRESS_ACL holds one object, and since 202405 the PFC watchdog binds
//     its own table there on Broadcom's DNX (orchagent/aclorch.cpp, bindAclTableToSwitch):
//     a table there is refused before the driver's is made, and looked for every 30 s after.
//   - ACL_STAGE_CAPABILITY_TABLE|EGRESS is_action_list_mandatory of STATE_DB is what
//     orchagent asked SAI (orchagent/aclorch.cpp, putAclActionCapabilityInDB): "true" is
//     refused, by what the next point says.
//   - P4Orch tells SAI of no other action of the table than COUNTER
//     (acl_table_manager.cpp, SAI_ACL_TABLE_ATTR_ACL_ACTION_TYPE_LIST, in every
//     branch), and of no bind points.
//   - p4rt_app (sonic-net/sonic-pins p4rt_app) reads every key of P4RT_TABLE but
//     definitions as its own (sonic/app_db_manager.cc, GetAllP4TableEntryKeys) and
//     takes any answer on the channel for one to its own request
//     (sonic/response_handler.cc). The driver does not write while anybody else
//     listens there, which also keeps out a second csig: it looks before
//     and after it has begun to listen itself. Over ZeroMQ p4rt_app's answers are on its own
//     connection; it still listens for those about VRFs (p4rt_app/p4rt.cc), and so the driver
//     looks there. csig itself goes on listening where it did, to be seen.
//
// Assumed, and the SAI vendor's to keep but for the first:
//
//   - that Redis and orchagent of one image have words of one length (their containers are
//     built for one architecture);
//   - that an egress ACL table can be bound to the switch with these fields at all,
//     and its entries set the outer VID, though the table's list of actions does not
//     have that (the driver reports the refusal where not);
//   - that SAI makes and binds ACL groups at all three stages (orchagent ends where not:
//     the driver's first definition is tried once);
//   - that the tables of a group are all looked at (SAI_ACL_TABLE_GROUP_TYPE_PARALLEL), so
//     that another application's at egress does not hide this one;
//   - that a group that is bound to the switch is where SAI takes OUT_PORT: P4Orch gives
//     its tables no bind points;
//   - that ASIC_DB is what SAI has: the driver counts its entries there, and looks there
//     for what is bound at egress;
//   - that SAI takes the TPIDs that PORT_TPID_CAPABLE lets a port have at all: that says
//     nothing of values. Up to 202411 orchagent ends at most refusals, since 202505 it
//     goes on without a word (orchagent/saihelper.cpp, handleSaiSetStatus): the driver
//     gives one port the TPID first, and compares a port's SAI_PORT_ATTR_TPID in ASIC_DB (by COUNTERS_PORT_NAME_MAP), and
//     of an aggregate's members nothing;
//   - that an entry with a member's port matches frames that the aggregate sends
//     out of it: that OUT_PORT is compared after the member was chosen;
//   - that SAI gives members the aggregate's TPID at once and without losing more
//     than a port does;
//   - that SAI_ACL_ENTRY_ATTR_FIELD_OUTER_VLAN_ID and _PRI compare the tag on the
//     wire, with the TPID that the port is configured for, and not a bridging VLAN;
//   - that SET_OUTER_VLAN_ID writes the wire's VID and leaves PCP, DEI and the
//     TPID alone, and that untagged frames and those with other TPIDs match no entry;
//   - that changing an entry's action is hitless, and that frames see entries in
//     the order in which SAI was called;
//   - that syncd works synchronously (DEVICE_METADATA synchronous_mode, the
//     default; the driver refuses where it is "disable"), so that orchagent's answer comes after SAI's.
//
// The lease: SONiC has none. Update's lease is not used, Facts.Lease is refused,
// Release writes the fallback itself, and docs/sonic.md says what else protects
// from entries that promise bandwidth long gone.
package sonic
