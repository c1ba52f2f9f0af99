/* What the data plane needs of the kernel's BPF interface (include/uapi/linux/bpf.h). It
 * stands here and is not included from a package, so that the same compiler makes the
 * same object whatever headers a machine has. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, val) int (*name)[val]
#define __type(name, val) typeof(val) *name
#define inline_fn static inline __attribute__((always_inline))

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_F_RECOMPUTE_CSUM 1

#define TCX_NEXT -1
#define TCX_DROP 2

/* The context of a tc program, up to the last field that is read. */
struct __sk_buff {
	u32 len, pkt_type, mark, queue_mapping, protocol;
	u32 vlan_present, vlan_tci, vlan_proto;
	u32 priority, ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid;
	u32 data, data_end, napi_id;
	u32 family, remote_ip4, local_ip4, remote_ip6[4], local_ip6[4], remote_port, local_port;
	u32 data_meta;
	u64 flow_keys __attribute__((aligned(8)));
	u64 tstamp;
	u32 wire_len, gso_segs;
	u64 sk __attribute__((aligned(8)));
	u32 gso_size;
};

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static long (*bpf_skb_store_bytes)(struct __sk_buff *skb, u32 offset, const void *from, u32 len, u64 flags) = (void *)9;
static long (*bpf_skb_vlan_push)(struct __sk_buff *skb, u16 proto, u16 tci) = (void *)18;
static long (*bpf_skb_vlan_pop)(struct __sk_buff *skb) = (void *)19;
static s64 (*bpf_csum_update)(struct __sk_buff *skb, u32 diff) = (void *)40;
static long (*bpf_loop)(u32 times, void *callback, void *arg, u64 flags) = (void *)181;
static long (*bpf_skb_load_bytes)(const void *skb, u32 offset, void *to, u32 len) = (void *)26;

inline_fn u16 swap16(u16 v) { return __builtin_bswap16(v); }
inline_fn u32 swap32(u32 v) { return __builtin_bswap32(v); }

/* Of the kernel's own structures (CO-RE): what the program reads, wherever it is. */
#define core __attribute__((preserve_access_index))
struct gnet_stats_queue { u32 backlog, drops; } core;
struct qdisc_skb_head { u32 qlen; } core;
struct atomic64 { s64 counter; } core;
struct local { struct atomic64 a; } core;
struct local64 { struct local a; } core;
struct u64_stats { struct local64 v; } core;
struct gnet_stats_basic_sync { struct u64_stats bytes, packets; } core;
struct Qdisc_ops { char id[16]; } core;
struct Qdisc {
	const struct Qdisc_ops *ops;
	u32 handle;
	struct qdisc_skb_head q;
	struct gnet_stats_basic_sync bstats;	/* what has left it */
	struct gnet_stats_queue qstats;
} core;
struct net_device { struct Qdisc *qdisc; } core;
struct sk_buff {
	struct net_device *dev;
	u16 mac_header, network_header, transport_header; /* distances from one place */
	u16 inner_network_header, inner_transport_header; /* of a tunnel's, else not above those */
} core;

extern void *bpf_cast_to_kern_ctx(void *ctx) __attribute__((section(".ksyms")));
