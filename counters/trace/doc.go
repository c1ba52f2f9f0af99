// Package trace records counter readings in one file that can be sent by mail, and
// plays them back as they came, so that a problem in the field can be looked at
// elsewhere and again: the same file gives the same estimates and buckets every time.
//
// # The file
//
// Lines of JSON, compressed with gzip when written and either way when read; zcat
// and jq do for a look. The first line is the header:
//
//	{"format":"csig.trace/v1","device":"leaf1","source":"snmp","interval_ns":1000000000,"ports":["swp1","swp2"]}
//
// Each line after it is one reading, its ports in the header's order:
//
//	{"read":1780000000000000000,"took":1400000,"ports":[{"at":…,"octets":…,"packets":…,"speed":…,"overhead":24},…]}
//	{"read":1780000001000000000,"took":2000000000,"error":"device leaf1: no answer"}
//
// Times are ns since 1970-01-01 UTC: "read" is our clock when the reading was asked
// for and "took" how long it took; a port's "at" is the sample's, "local" our clock
// for it where "at" is the device's. "speed" is in bit/s, "octets", "packets" and
// "overhead" in bytes and frames. Left out where they are the usual thing: "down"
// (false), "bits" (64), "epoch" and "speed" (0), "live" (false), "degraded" and
// "error" (empty). A port with an error has only "at" beside it.
//
// What is recorded is the source's own samples, before a Refresh has looked at them, and
// no secret. The header's "settings" are what the buckets depend on beside them: the
// configured capacities ("speeds_bps"), estimator, damping and bucket tables. Of the
// rest of the configuration nothing is in it: the texts of errors are recorded without
// IP addresses and without the words that the recorder is to hide.
//
// # Damage
//
// A file that ends too early, because its writer was killed, is good up to there:
// Next returns the readings, then an error that wraps io.ErrUnexpectedEOF. A line that
// is not of this format is an error with its number.
package trace
