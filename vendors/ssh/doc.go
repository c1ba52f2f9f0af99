// Package ssh logs in at switches: strict host keys, credentials by reference,
// commands with their exit status, and connections to unix sockets over there.
// It is the only place of csig that speaks SSH.
//
// Dial is for who may do what is needed (root, as a rule): commands run on exec
// channels. The far side's own exit status comes back, standard output is apart
// from standard error, and input of any length and any bytes goes through.
//
// DialRoot is for an ordinary account that becomes root by sudo. sudo asks for
// the password on a terminal, where scrapligo's generic driver waits for its
// prompt and answers it: once, since several wrong passwords may lock the
// account. What runs as root then makes two named pipes, which the account
// connects to on an exec channel, and serves commands through them with the same
// promises as exec channels. The terminal only holds root's shell: when the
// connection ends, it is hung up, and all of that ends, too. scrapligo carries no
// commands, because a terminal's text has neither exit status nor standard error
// apart, and its channel drops carriage returns and terminal sequences.
//
// A socket that only root may open is connected to by a relay (relay.go): sshd
// itself connects as the account. Tunnel is either way of logging in, made anew
// when it was lost.
//
// scrapligo's own standard transport is not used, because it takes no passphrase
// and no agent, asks the server for host keys of a kind that the known_hosts file
// may not have, heeds no context, and does not let anybody else open a channel;
// the driver's terminal is one more channel of our connection instead.
//
// Run with sudo 1.9.13 of Debian 12, with and without use_pty, with dash, bash
// and busybox as root's shell. That sudo-rs shows its prompt in words of its own
// is assumed from its documentation.
package ssh
