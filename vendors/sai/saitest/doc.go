// Package saitest is an orchagent whose libsairedis serves SAI to other processes, for tests: ServerSai's socket, the
// objects of SAI by their metadata, ASIC_DB in a real Redis, and a chip: linux-ebpf at veth ports, set up by what was
// accepted. It is not made of what csig writes messages with.
//
// It never ran beside hardware. What it assumes of the real ones, by sonic-net/sonic-sairedis, branch 202605 (92b712ae of
// 2026-08-20; lines are of that commit) unless it says otherwise:
//
//   - libsairedis is a server unless its profile says enable client (lib/ClientServerSai.cpp:70), with a socket at
//     ipc:///tmp/saiServer (lib/ServerConfig.cpp:14);
//   - a REP socket, one request at a time (meta/ZeroMQSelectableChannel.cpp:42 and 211, lib/ServerSai.cpp:725): an array of
//     texts, the key and the command first (meta/ZeroMQSelectableChannel.cpp:184), names and values in turn behind them
//     (sonic-net/sonic-swss-common common/json.cpp, readJson);
//   - create, remove, set and get (lib/ServerSai.cpp:766 to 776, 814) and the queries of an attribute's capability (1944)
//     and of an enum's values (1995): numbers with a comma behind each, and their count (2038). A create has the
//     switch's ID in its key (885), and the answer has the new one's (922), or the switch's where it failed;
//   - an exception that ServerSai's thread does not catch ends orchagent: an unknown command (lib/ServerSai.cpp:811), what is
//     no JSON or an empty or odd array (meta/ZeroMQSelectableChannel.cpp:184 and 186), values that are no texts, an
//     object type (lib/ServerSai.cpp:830), attribute (meta/SaiSerialize.cpp:5993), bool (3649), number (3728), ID
//     (3863, 3874) or enum that is none (3783: it is read as a number then), and a list whose elements are not as many as its
//     count (3916; of ranges 4433). All of it was tried with the real libsairedis of that branch.
//     A number of more bits than its attribute has is read, and loses them (3724);
//   - a message with an empty key is never answered, and nothing after it (lib/ServerSai.cpp:759);
//   - a create that wants a mandatory attribute (meta/Meta.cpp:3973), a reference to what is not there (5355) and a removal of
//     what is in use (1652) are answered by a status, a list that is longer than asked for by
//     SAI_STATUS_BUFFER_OVERFLOW and its count (lib/ServerSai.cpp:979);
//   - a client that leaves does not end what it asked for;
//   - syncd carries requests out one after the other, and writes what was created, set and removed to ASIC_DB behind its answer
//     (syncd/Syncd.cpp:3650 and 3653; syncd/RedisClient.cpp:490, 558 and 582), by the virtual IDs that clients have. One that is not
//     synchronous throws at a call that fails instead (syncd/Syncd.cpp:3642): the fake is synchronous;
//   - syncd and orchagent are synchronous unless synchronous_mode of DEVICE_METADATA is "disable", so also where there is no such key
//     (sonic-net/sonic-buildimage files/build_templates/swss_vars.j2:9 as of 4b5bf30e, since pull request 5735 of 2020-10 and in all releases since 202012;
//     dockers/docker-orchagent/orchagent.sh:29 as of 0338f83b; syncd/scripts/syncd_init_common.sh:44 and 54), by the argument -s or -z, and whatever
//     that key says where they speak by ZeroMQ (syncd/Syncd.cpp:145). Since 2026-07 syncd of master then writes to ASIC_DB behind its answers by a
//     thread of its own where SYSTEM_DEFAULTS|async_rec is enabled, by the argument -R (master 21851c5d: syncd/scripts/syncd_init_common.sh:57,
//     syncd/CommandLineOptionsParser.cpp:124, syncd/Syncd.cpp:211). Keys are read at a start; csig looks at the arguments of what runs. syncd is in
//     orchagent's network namespace (docker_image_ctl.j2, below). One that speaks ZeroMQ by its context's file alone, without -s or -z, is refused, too;
//   - the virtual switch has no answer to which values an enum has, but of some attributes (vslib/SwitchStateBase.cpp:4342), says that
//     it can create, set and get each attribute (4490), and answers SAI_STATUS_NOT_IMPLEMENTED to a get of most that can only be read (746 and
//     2936), and of what was not set (758): Virtual;
//   - each type that an attribute of csig's has is one that a get can be of, the ranges as the last (meta/Meta.cpp:4859, meta/SaiSerialize.cpp:337 and 2499);
//   - in a warm restart syncd removes what the new view has not (syncd/Syncd.cpp:4620, syncd/ComparisonLogic.cpp:541);
//   - orchagent runs in the host's network namespace, and on a switch of several ASICs in one for each
//     (sonic-net/sonic-buildimage files/build_templates/docker_image_ctl.j2 as of 005b214a, NET of start()), where its arguments name the ASIC
//     (dockers/docker-orchagent/orchagent.sh:51 as of 0338f83b), as asic_name of DEVICE_METADATA does, and its databases are in
//     /var/run/redis0 and so on (dockers/docker-database/docker-database-init.sh as of 0b8ea54b, REDIS_DIR).
//
// Assumed, by no text: that vendors answer with the virtual SAI's statuses, an attribute that one does not have with
// SAI_STATUS_ATTR_NOT_SUPPORTED_n, n its place; that numbers of objects begin anew after a cold start; and that a chip does with tags
// what doc/CSIG/SAI-CSIG-Spec.md (opencomputeproject/SAI) says of it: a locator of 6 bits and D, as in the layout uec.
package saitest
