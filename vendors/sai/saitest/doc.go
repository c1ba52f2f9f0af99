// Package saitest is an orchagent whose libsairedis serves SAI to other processes, for tests: ServerSai's socket, the
// objects of SAI by their metadata, and ASIC_DB in a real Redis. It is not made of what csig writes messages with.
//
// It never ran beside hardware. What it is by, in sonic-net/sonic-sairedis (master of 2026-08-21) unless it says otherwise:
//
//   - a REP socket (meta/ZeroMQSelectableChannel.cpp), one request at a time; an array of texts, the key and the command
//     first, names and values in turn behind them (swss-common common/json.cpp, readJson);
//   - create, set, remove and get of objects, and the query of an attribute's capability
//     (lib/ServerSai.cpp, processSingleEvent, processQuadEvent, processAttrCapabilityQuery). A create has the switch's ID in
//     its key, and the answer the new one's (sendApiResponse);
//   - an exception that ServerSai's thread does not catch ends orchagent: an unknown command, what is no JSON, an
//     empty or odd array, values that are no texts, an object type, attribute, enum, number or ID that is none, and a list
//     whose elements are not as many as its count (SWSS_LOG_THROW there and in meta/sai_serialize.cpp). All of it was tried with the real libsairedis of branch 202605;
//   - a message with an empty key is never answered, and nothing after it (processSingleEvent returns without a word);
//   - a create that wants a mandatory attribute, a reference to what is not there, and a removal of what is in use
//     are answered by a status (meta/Meta.cpp), a list that is longer than asked for by SAI_STATUS_BUFFER_OVERFLOW and its
//     count (sendGetResponse);
//   - a client that leaves does not end what it asked for;
//   - syncd writes what was created and set to ASIC_DB (ASIC_STATE:TYPE:OID), by the virtual IDs that clients have.
//
// Assumed: that the virtual SAI's statuses are those of vendors, and that an attribute that a vendor does not have is
// answered by SAI_STATUS_ATTR_NOT_SUPPORTED_n, n its place.
package saitest
