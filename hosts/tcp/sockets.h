/* What programs of sockets need of the kernel's BPF interface (include/uapi/linux/bpf.h), beside bpf.h. */
#pragma once

#include "bpf.h"

#define BPF_MAP_TYPE_LRU_HASH 9
#define BPF_MAP_TYPE_LPM_TRIE 11
#define BPF_MAP_TYPE_SK_STORAGE 24
#define BPF_F_NO_PREALLOC 1
#define BPF_SK_STORAGE_GET_F_CREATE 1
#define BPF_F_CURRENT_NETNS ((u64)-1)
#define BPF_LOAD_HDR_OPT_TCP_SYN 1

#define AF_INET 2
#define SOL_SOCKET 1
#define SO_MAX_PACING_RATE 47
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_SAVE_SYN 27
#define TCP_BPF_SYN_IP 1006
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008
#define TCP_LISTEN 10
#define TCP_NEW_SYN_RECV 12

#define CONNECT_CB 3
#define ACTIVE_ESTABLISHED_CB 4
#define PASSIVE_ESTABLISHED_CB 5
#define LISTEN_CB 11
#define PARSE_HDR_OPT_CB 13
#define HDR_OPT_LEN_CB 14
#define WRITE_HDR_OPT_CB 15

/* Which of these a socket has called, and what HDR_OPT_LEN_CB asks about. */
#define PARSE_UNKNOWN_FLAG 32
#define WRITE_FLAG 64
#define WRITE_HDR_CURRENT_MSS 1
#define WRITE_HDR_SYNACK_COOKIE 2

#define SYN 0x02
#define ACK 0x10

struct bpf_sock {
	u32 bound_dev_if, family, type, protocol, mark, priority;
	u32 src_ip4, src_ip6[4], src_port;
	u16 dst_port, pad;	/* network order */
	u32 dst_ip4, dst_ip6[4], state;
};

/* The context of a sockops program. */
struct bpf_sock_ops {
	u32 op, args[4], family;
	u32 remote_ip4, local_ip4, remote_ip6[4], local_ip6[4];
	u32 remote_port, local_port;	/* the former in network order */
	u32 is_fullsock, snd_cwnd, srtt_us, bpf_sock_ops_cb_flags, state, rtt_min, snd_ssthresh, rcv_nxt, snd_nxt, snd_una;
	u32 mss_cache, ecn_flags, rate_delivered, rate_interval_us, packets_out, retrans_out, total_retrans;
	u32 segs_in, data_segs_in, segs_out, data_segs_out, lost_out, sacked_out, sk_txhash;
	u64 bytes_received, bytes_acked;
	struct bpf_sock *sk __attribute__((aligned(8)));
	u64 skb_data, skb_data_end;
	u32 skb_len, skb_tcp_flags;
};

struct bpf_sock_tuple {
	union {
		struct { u32 saddr, daddr; u16 sport, dport; } ipv4;
		struct { u32 saddr[4], daddr[4]; u16 sport, dport; } ipv6;
	};
};

/* Of the kernel's own structures (CO-RE). */
struct in6_addr { union { u32 u6_addr32[4]; } in6_u; } core;
struct sock_common {
	u32 skc_daddr, skc_rcv_saddr;
	u16 skc_dport, skc_num, skc_family;
	u8 skc_state;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
} core;
struct sock { struct sock_common __sk_common; } core;
struct seq_file;
struct bpf_iter_meta { struct seq_file *seq; } core;
struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};
struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	void *map;
	struct sock *sk;
	void *value;
};

static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static long (*bpf_setsockopt)(void *ctx, int level, int name, void *value, int len) = (void *)49;
static long (*bpf_getsockopt)(void *ctx, int level, int name, void *value, int len) = (void *)57;
static long (*bpf_sock_ops_cb_flags_set)(struct bpf_sock_ops *s, int flags) = (void *)59;
static long (*bpf_probe_read_kernel_str)(void *to, u32 len, const void *from) = (void *)115;
static long (*bpf_sk_release)(void *sk) = (void *)86;
static struct bpf_sock *(*bpf_sk_fullsock)(struct bpf_sock *sk) = (void *)95;
static struct bpf_sock *(*bpf_skc_lookup_tcp)(void *ctx, struct bpf_sock_tuple *t, u32 size, u64 netns, u64 flags) = (void *)99;
static void *(*bpf_sk_storage_get)(void *map, void *sk, void *value, u64 flags) = (void *)107;
static void *(*bpf_skc_to_tcp_sock)(void *sk) = (void *)137;
static u64 (*bpf_get_netns_cookie)(void *ctx) = (void *)122;
static long (*bpf_seq_write)(struct seq_file *m, const void *data, u32 len) = (void *)127;
static long (*bpf_load_hdr_opt)(struct bpf_sock_ops *s, void *to, u32 len, u64 flags) = (void *)142;
static long (*bpf_store_hdr_opt)(struct bpf_sock_ops *s, const void *from, u32 len, u64 flags) = (void *)143;
static long (*bpf_reserve_hdr_opt)(struct bpf_sock_ops *s, u32 len, u64 flags) = (void *)144;
