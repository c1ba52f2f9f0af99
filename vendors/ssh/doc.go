// Package ssh logs in at switches: strict host keys, credentials by reference,
// commands with their exit status, and connections to unix sockets over there.
// It is the only place of csig that speaks SSH.
//
// Commands run on exec channels: the far side's own exit status comes back,
// standard output is apart from standard error, and input of any length and
// any bytes goes through. A terminal with a prompt (which is what scrapligo's
// drivers are for) has none of this: its line discipline echoes, and cuts lines
// at 4096 bytes. For switches that have only such a command line, Shell carries
// scrapligo's drivers over the same connection. scrapligo's own standard
// transport is not used, because it takes no passphrase and no agent, asks the
// server for host keys of a kind that the known_hosts file may not have, heeds
// no context, and does not let anybody else open a channel.
package ssh
