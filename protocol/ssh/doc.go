// Package ssh logs in at switches: strict host keys, credentials by reference,
// commands with their exit status, and connections to unix sockets of the switch.
// It is the only package of csig that uses SSH.
//
// Each command runs on an exec channel: the remote exit status comes back, standard
// output is apart from standard error, and input of any length and any bytes goes
// through.
//
// An ordinary account becomes root by sudo where its login has that. Each command is
// one sudo then, without a terminal: sudo asks on
// standard error (-S -p) and reads the password from standard input. The command's
// own input follows once the root shell reports that it runs. The password is never
// an argument nor in an environment, and is sent once: several wrong ones may lock
// the account. A sudo that has lost its connection reads the end of its input and
// ends. Where sudoers has requiretty, sudo refuses, and the error names the change.
//
// A socket that only root may open is connected to by a python3 that sudo starts
// (relay.go): sshd itself connects as the account. Tunnel is a login that is made
// again when it was lost.
//
// What a switch sends is bounded, in bytes and in time, and its text is cleaned
// here. A connection over which too much came is closed.
//
// Run with sudo 1.9.13 of Debian 12, with and without use_pty and I/O logs, with
// dash, bash and busybox as /bin/sh. With I/O logs that sudo drops what its reader has
// not taken when the command ends: of `cat file | sudo cat | (sleep 1; cat)` the last
// 64 KiB or more are lost. What csig reads as root is shorter than a pipe holds, and
// arrives. That sudo-rs shows its prompt in words of its own is assumed from its
// documentation.
package ssh
