// Package offer is how csig host run hands programs of its machine what it knows of their flows: a unix socket
// (SOCK_SEQPACKET) that anybody may open. It sends one message at once, an Offer as JSON with the files of BPF maps, which
// are for reading alone, and nothing more; the connection stays open for as long as what the message says holds.
//
// The maps are no pinned ones: systemd mounts /sys/fs/bpf with mode 0700, so that no ordinary user reaches a map
// there, whatever its own mode is. What a process holds it may read, with kernel.unprivileged_bpf_disabled, too: since
// Linux 5.19 that refuses new maps and programs alone.
package offer
