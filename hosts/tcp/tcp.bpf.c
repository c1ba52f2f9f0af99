//go:build ignore

/* CSIG in the TCP of this host (draft-ravi-ippm-csig-00 §4.2 to §4.4): tags are inserted at tcx egress and
 * removed at tcx ingress of one network interface, and a TCP option reflects them. What is known of a
 * connection is in its socket's storage, and goes with the socket. Numbers in frames are in network order; a
 * build is for little-endian machines. */
#include "control.h"

#define TPID 0xa888	/* 0x88a8: the only one that vlan_push takes, besides that of ordinary VLANs */
#define SIGNALS 4
#define AVERAGED 2	/* signals that tell what is left: abw, abwc */
#define ETH_HEADER 14
#define TYPE_IPV4 0x0008
#define TYPE_IPV6 0xdd86
#define IP_TCP 6
#define IP_UDP 17
#define MOST_MISSED 7	/* that lengthen the wait: to 64 times */

/* The configuration: constants, so that each load has code for its own alone. */
const volatile u64 netns_cookie;	/* of the namespace whose sockets are csig's */
const volatile u64 fresh;	/* ns: tags leave while the last reflection is younger */
const volatile u64 probe_every;	/* ns: else one tag in this time, and in twice as long after each that brings none */
const volatile u64 expires;	/* ns: an older tag is not reflected */
const volatile u32 every;	/* of so many frames or super-frames one has a tag */
const volatile u32 signals;	/* how many: those of start */
const volatile u16 start[SIGNALS];	/* the tags that leave, in turns */
const volatile u32 carried;	/* bits: which T the profile has */
const volatile u8 option_kind;
const volatile u16 option_exid;	/* network order; 0: the kind has none */
const volatile char control_name[CONTROL_NAME];	/* of csig's control; empty: connections stay with the system's */
const volatile u64 room[32];	/* by S: bytes/s that it leaves at least */
const volatile u32 control_signal;	/* whose S that is */
const volatile u16 lm_shift, lm_stale;	/* of the layout; higher locators than stale, and 0, are no port's */

const volatile u32 weight;	/* of a tag in the moving average: 1/weight; 0: there is none */
const volatile u64 least[AVERAGED][32];	/* by T and S: what is left at least, in the signal's unit */

/* A tag and when it came. */
struct reading {
	u64 at;
	u64 mean;	/* what is left at least, by the tags until then (§5.3.2) */
	u16 tci;
	u8 averaged;	/* there is a mean */
	u8 pad[5];
};

/* A connection whose both ends have agreed on the option. */
struct flow {
	u64 tagged;		/* when a tag left, or the connection began */
	u64 reflected;		/* when the last reflection came */
	u64 tags, reflections, options;	/* sent with a tag; received, and sent with an option */
	struct reading received[SIGNALS];	/* by T: tags of the peer's frames */
	struct reading learned[SIGNALS];	/* by T: tags of this host's frames, as the peer reflects them */
	u32 frames, turn;	/* sent while fresh; which of start is next */
	u8 reflect;		/* the T that is reflected next */
	u8 active;		/* this host opened it */
	u8 missed;		/* probes in a row that brought no reflection */
	u8 left;		/* a changed fleet file has it no more */
	u8 pad[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct flow);
} flows SEC(".maps");

/* The ends of a connection; IPv4 addresses are mapped into IPv6. */
struct ends {
	u32 remote[4], local[4];
	u16 remote_port, local_port;	/* host order */
};

/* Tags that came with the handshake's last ACK, before there is a socket. A flood of SYNs displaces the oldest. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct ends);
	__type(value, struct reading);
} handshakes SEC(".maps");

/* Prefixes of the hosts that expect tags, and of which; those of IPv4 are mapped. */
#define EXPECTS_TAGS 1	/* of connections, with the option, and of datagrams */
#define EXPECTS_MESH 2	/* of probes of the mesh */
struct prefix {
	u32 bits;
	u32 address[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct prefix);
	__type(value, u32);
} prefixes SEC(".maps");

/* A bit for each port of servers whose connections are csig's. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u64);
} ports SEC(".maps");

struct counts {
	u64 tagged, probes;	/* frames or super-frames that left with a tag; those of them to find out whether it comes through */
	u64 stripped;		/* that came with one */
	u64 options, reflections;	/* sent, received */
	u64 malformed;		/* options that carry no signal of the profile */
	u64 no_room;		/* ACKs without room for the option */
	u64 failed;		/* tags that the kernel did not insert or remove */
	u64 connections;	/* whose ends agreed */
	u64 datagrams_sent, datagrams_received;	/* with a tag */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counts);
} counters SEC(".maps");

/* COUNT adds one to a counter. */
#define COUNT(name) do {				\
	u32 first = 0;					\
	struct counts *c = bpf_map_lookup_elem(&counters, &first);	\
	if (c)						\
		c->name++;				\
} while (0)

inline_fn void map4(u32 *to, u32 ip) { to[0] = to[1] = 0; to[2] = swap32(0xffff); to[3] = ip; }

inline_fn u32 expected_by(const u32 *address)
{
	struct prefix p = { 128, { address[0], address[1], address[2], address[3] } };
	const u32 *expects = bpf_map_lookup_elem(&prefixes, &p);

	return expects ? *expects : 0;
}

inline_fn int is_expected(const u32 *address) { return expected_by(address) & EXPECTS_TAGS; }

inline_fn int has_port(void *set, u32 port)
{
	u32 word = port >> 6 & 1023;
	const u64 *bits = bpf_map_lookup_elem(set, &word);

	return bits && *bits >> (port & 63) & 1;
}

/* A packet of TCP or UDP, and where its addresses are. */
struct packet {
	struct ends e;		/* remote is the source of what comes in, and the destination of what leaves */
	u32 payload;		/* bytes behind the TCP header; of a super-frame all */
	u32 six, udp;
};

/* parse reads the addresses of a frame with no tag left; it fails for all but packets of TCP and UDP that are whole. */
inline_fn int parse(struct __sk_buff *skb, struct packet *p, int leaves)
{
	u32 at = ETH_HEADER, from[4], to[4];
	u16 tcp[2];
	u8 offset, protocol;

	if (skb->protocol == TYPE_IPV4) {
		u8 ip[20];
		if (bpf_skb_load_bytes(skb, at, ip, sizeof ip))
			return -1;
		if ((ip[6] & 0x3f) || ip[7] || (ip[0] & 15) < 5)
			return -1;	/* a fragment */
		protocol = ip[9];
		map4(from, *(u32 *)&ip[12]);
		map4(to, *(u32 *)&ip[16]);
		at += (ip[0] & 15) * 4;
		p->six = 0;
	} else if (skb->protocol == TYPE_IPV6) {
		u8 ip[40];
		if (bpf_skb_load_bytes(skb, at, ip, sizeof ip))
			return -1;
		protocol = ip[6];
		__builtin_memcpy(from, &ip[8], 16);
		__builtin_memcpy(to, &ip[24], 16);
		at += sizeof ip;
		p->six = 1;
	} else {
		return -1;
	}
	p->udp = protocol == IP_UDP;
	if ((!p->udp && protocol != IP_TCP) || bpf_skb_load_bytes(skb, at, tcp, sizeof tcp))
		return -1;
	p->payload = 0;
	if (!p->udp) {
		if (bpf_skb_load_bytes(skb, at + 12, &offset, 1))
			return -1;
		at += (offset >> 4) * 4;
		p->payload = skb->len > at ? skb->len - at : 0;
	}
	if (leaves) {
		__builtin_memcpy(p->e.local, from, 16);
		__builtin_memcpy(p->e.remote, to, 16);
		p->e.local_port = swap16(tcp[0]);
		p->e.remote_port = swap16(tcp[1]);
	} else {
		__builtin_memcpy(p->e.remote, from, 16);
		__builtin_memcpy(p->e.local, to, 16);
		p->e.remote_port = swap16(tcp[0]);
		p->e.local_port = swap16(tcp[1]);
	}
	return 0;
}

/* is_of reports whether a packet goes where its socket does: the one in a tunnel, or to a server behind a
 * translated address, does not, and its receiver may expect no tag. The verifier wants a socket's fields read one by one. */
inline_fn int is_of(const struct packet *p, const volatile struct bpf_sock *sk)
{
	u32 to[4] = { sk->dst_ip6[0], sk->dst_ip6[1], sk->dst_ip6[2], sk->dst_ip6[3] }, to4 = sk->dst_ip4;

	if (sk->dst_port != swap16(p->e.remote_port))
		return 0;
	if (!p->six)
		return to4 == p->e.remote[3];
	return to[0] == p->e.remote[0] && to[1] == p->e.remote[1] && to[2] == p->e.remote[2] && to[3] == p->e.remote[3];
}

/* average has a tag in the mean of those of its T. One that no port wrote begins a new one. */
inline_fn void average(struct reading *r, u16 tci, u32 t)
{
	u32 lm = (tci & 127) >> lm_shift;

	if (!weight || t >= AVERAGED || !lm || lm >= lm_stale) {
		r->averaged = 0;
		return;
	}
	u64 left = least[t & (AVERAGED - 1)][tci >> 7 & 31];
	if (!r->averaged)
		r->mean = left;
	else if (left > r->mean)
		r->mean += (left - r->mean) / weight;
	else
		r->mean -= (r->mean - left) / weight;
	r->averaged = 1;
}

/* note keeps the newest tag of each T. */
inline_fn int note(struct reading *r, u16 tci, u64 now)
{
	u32 t = tci >> 13;

	if (t >= SIGNALS || !(carried >> t & 1))
		return -1;
	asm volatile("" : "+r"(t));	/* the compiler knows that t is below SIGNALS, and the verifier wants to see it */
	t &= SIGNALS - 1;
	r[t].tci = tci;
	r[t].at = now;
	average(&r[t], tci, t);
	return 0;
}

#include "udp.h"

SEC("tcx/egress")
int csig_insert(struct __sk_buff *skb)
{
	struct bpf_sock *sk = (void *)(long)skb->sk;
	struct packet p;

	if (!sk || skb->vlan_present)
		return TCX_NEXT;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return TCX_NEXT;
	if (sk->protocol == IP_UDP)
		return insert_datagram(skb);
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, 0);
	if (!f || f->left || parse(skb, &p, 1) || p.udp || !is_of(&p, sk))
		return TCX_NEXT;
	u64 now = bpf_ktime_get_ns();
	int probes = !f->reflected || now - f->reflected >= fresh;
	if (probes) {
		/* Where the path drops tags no data is lost with an ACK: so the first one is a probe at once, and
		 * probes become rare. */
		u32 doubled = f->missed ? f->missed - 1 : 0;
		if (now - f->tagged < probe_every << (doubled & 7) && (f->tags || p.payload))
			return TCX_NEXT;
		if (f->missed < MOST_MISSED)
			f->missed++;
	} else if (every > 1 && f->frames++ % every) {
		return TCX_NEXT;
	}
	u32 turn = f->turn++ % (signals ? signals : 1);
	if (bpf_skb_vlan_push(skb, TPID, start[turn & (SIGNALS - 1)])) {
		COUNT(failed);
		return TCX_NEXT;
	}
	f->tagged = now;
	f->tags++;
	COUNT(tagged);
	if (probes)
		COUNT(probes);
	return TCX_NEXT;
}

SEC("tcx/ingress")
int csig_strip(struct __sk_buff *skb)
{
	struct packet p;

	if (!skb->vlan_present || skb->vlan_proto != TPID)
		return TCX_NEXT;
	u16 tci = skb->vlan_tci;
	if (bpf_skb_vlan_pop(skb)) {
		COUNT(failed);
		return TCX_NEXT;
	}
	COUNT(stripped);
	if (parse(skb, &p, 0))
		return TCX_NEXT;
	if (p.udp) {
		strip_datagram(skb, &p, tci);
		return TCX_NEXT;
	}
	struct bpf_sock_tuple t = {};
	if (p.six) {
		__builtin_memcpy(t.ipv6.saddr, p.e.remote, 16);
		__builtin_memcpy(t.ipv6.daddr, p.e.local, 16);
		t.ipv6.sport = swap16(p.e.remote_port);
		t.ipv6.dport = swap16(p.e.local_port);
	} else {
		t.ipv4.saddr = p.e.remote[3];
		t.ipv4.daddr = p.e.local[3];
		t.ipv4.sport = swap16(p.e.remote_port);
		t.ipv4.dport = swap16(p.e.local_port);
	}
	struct bpf_sock *sk = p.six ? bpf_skc_lookup_tcp(skb, &t, sizeof t.ipv6, BPF_F_CURRENT_NETNS, 0)
				    : bpf_skc_lookup_tcp(skb, &t, sizeof t.ipv4, BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return TCX_NEXT;
	u64 now = bpf_ktime_get_ns();
	struct bpf_sock *full = bpf_sk_fullsock(sk);
	if (full) {
		struct flow *f = bpf_sk_storage_get(&flows, full, 0, 0);
		if (f)
			note(f->received, tci, now);
	} else if (sk->state == TCP_NEW_SYN_RECV && is_expected(p.e.remote)) {
		struct reading r = { .at = now, .tci = tci };
		bpf_map_update_elem(&handshakes, &p.e, &r, 0);
	}
	bpf_sk_release(sk);
	return TCX_NEXT;
}

/* The option: kind, length, ExID where the kind is one for experiments (RFC 6994), and in all but SYNs a tag
 * without its TPID. */
#define OPTION_MOST 6
#define OPTION_HEAD (option_exid ? 4 : 2)

inline_fn void head(u8 *o, u32 len)
{
	o[0] = option_kind;
	o[1] = len;
	if (option_exid)
		*(u16 *)&o[2] = option_exid;
}

/* load reads csig's option of a packet, of exactly so many bytes. */
inline_fn int load(struct bpf_sock_ops *s, u8 *o, u32 len, u64 flags)
{
	__builtin_memset(o, 0, OPTION_MOST);
	head(o, option_exid ? 4 : 0);	/* what is searched: a kind with this ExID, or a kind */
	return bpf_load_hdr_opt(s, o, OPTION_MOST, flags) == len && o[1] == len ? 0 : -1;
}

inline_fn void ends_of(const volatile struct bpf_sock_ops *s, struct ends *e)
{
	u32 remote4 = s->remote_ip4, local4 = s->local_ip4;

#pragma unroll
	for (int i = 0; i < 4; i++) {
		e->remote[i] = s->remote_ip6[i];
		e->local[i] = s->local_ip6[i];
	}
	e->remote_port = swap32(s->remote_port);
	e->local_port = s->local_port;
	if (s->family == AF_INET) {
		map4(e->remote, remote4);
		map4(e->local, local4);
	}
}

inline_fn void call(struct bpf_sock_ops *s)
{
	bpf_sock_ops_cb_flags_set(s, s->bpf_sock_ops_cb_flags | WRITE_FLAG | PARSE_UNKNOWN_FLAG);
}

/* syn_from is whether a SYN came from a host that expects tags. A request has not the peer's address in the
 * same place for both families. */
inline_fn int syn_from(struct bpf_sock_ops *s)
{
	u8 ip[40] = {};
	u32 from[4];

	bpf_getsockopt(s, SOL_TCP, TCP_BPF_SYN_IP, ip, sizeof ip);	/* it fails where there is more, and copies */
	if (ip[0] >> 4 == 6)
		__builtin_memcpy(from, &ip[8], 16);
	else if (ip[0] >> 4 == 4)
		map4(from, *(u32 *)&ip[12]);
	else
		return 0;
	return is_expected(from);
}

/* established begins with a connection where both ends agree. */
inline_fn void established(struct bpf_sock_ops *s, int active)
{
	struct ends e = {};
	u8 o[OPTION_MOST];

	struct bpf_sock *sk = s->sk;
	if (!(s->bpf_sock_ops_cb_flags & WRITE_FLAG) || !sk)
		return;
	ends_of(s, &e);
	if (!has_port(&ports, active ? e.remote_port : e.local_port) || !is_expected(e.remote))
		return;
	struct reading *first = active ? 0 : bpf_map_lookup_elem(&handshakes, &e);
	struct reading came = first ? *first : (struct reading){};
	if (first)
		bpf_map_delete_elem(&handshakes, &e);
	if (load(s, o, OPTION_HEAD, active ? 0 : BPF_LOAD_HDR_OPT_TCP_SYN))
		return;
	struct flow *f = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!f)
		return;
	f->active = active;
	f->tagged = bpf_ktime_get_ns();
	if (came.at)
		note(f->received, came.tci, came.at);
	COUNT(connections);
}

inline_fn struct flow *flow_of(struct bpf_sock_ops *s)
{
	struct bpf_sock *sk = s->sk;
	struct flow *f = sk ? bpf_sk_storage_get(&flows, sk, 0, 0) : 0;

	return f && !f->left ? f : 0;
}

/* next is the tag that an ACK reflects: the T's in turns, and none that is old (draft-00 §4.2). */
inline_fn int next(const struct flow *f, u16 *tci)
{
	u64 now = bpf_ktime_get_ns();

#pragma unroll
	for (u32 i = 0; i < SIGNALS; i++) {
		u32 t = (f->reflect + i) & (SIGNALS - 1);
		const struct reading *r = &f->received[t];
		if (r->at && now - r->at < expires) {
			*tci = r->tci;
			return t;
		}
	}
	return -1;
}

inline_fn void reserve(struct bpf_sock_ops *s)
{
	u32 len = OPTION_HEAD;
	u16 tci;

	if (s->args[0] == WRITE_HDR_CURRENT_MSS || s->args[0] == WRITE_HDR_SYNACK_COOKIE)
		return;	/* no data has the option, and of a cookie's SYN nothing is kept */
	if (s->skb_tcp_flags & SYN) {
		u8 o[OPTION_MOST];
		if (s->skb_tcp_flags & ACK && (!syn_from(s) || load(s, o, len, BPF_LOAD_HDR_OPT_TCP_SYN)))
			return;
		if (!(s->skb_tcp_flags & ACK) && s->total_retrans)
			return;	/* what has dropped the first one may let one without the option through */
	} else {
		struct flow *f = s->skb_len ? 0 : flow_of(s);
		if (!f || next(f, &tci) < 0)
			return;
		len += 2;
	}
	if (bpf_reserve_hdr_opt(s, len, 0))
		COUNT(no_room);
}

inline_fn void write(struct bpf_sock_ops *s)
{
	u8 o[OPTION_MOST] = {};
	u16 tci;

	if (s->skb_tcp_flags & SYN) {
		head(o, OPTION_HEAD);
		bpf_store_hdr_opt(s, o, OPTION_HEAD, 0);	/* where there was no room it fails */
		return;
	}
	struct flow *f = flow_of(s);
	if (!f)
		return;
	int t = next(f, &tci);
	if (t < 0)
		return;
	head(o, OPTION_HEAD + 2);
	*(u16 *)&o[OPTION_HEAD] = swap16(tci);
	if (bpf_store_hdr_opt(s, o, OPTION_HEAD + 2, 0))
		return;
	f->reflect = (t + 1) & (SIGNALS - 1);
	f->options++;
	COUNT(options);
}

/* control hands a connection to csig's control, and tells it what is left. */
inline_fn void control(struct bpf_sock_ops *s, u16 tci, u64 now)
{
	struct bpf_sock *sk = s->sk;
	u32 lm = (tci & 127) >> lm_shift;
	char name[CONTROL_NAME];

	if (!control_name[0] || tci >> 13 != control_signal || !lm || lm > lm_stale || !sk)
		return;
	struct control *c = bpf_sk_storage_get(&controls, sk, 0, lm == lm_stale ? 0 : BPF_SK_STORAGE_GET_F_CREATE);
	if (!c)
		return;
	if (lm == lm_stale) {	/* it gives the connection back itself */
		c->at = 0;
		if (c->mine)
			c->why = WHY_STALE;
		return;
	}
	c->at = now;
	c->room = room[tci >> 7 & 31];
	if (c->mine) {
		c->why = WHY_NONE;
		return;
	}
	if (c->cap) {	/* the application has chosen another control, which has no use for csig's limit */
		u32 rate = c->before < 0xffffffff ? c->before : 0xffffffff;
		bpf_setsockopt(s, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
		c->cap = 0;
	}
	if (c->why == WHY_CHOSEN || (c->refused && now - c->refused < 1000000000))
		return;
#pragma unroll
	for (int i = 0; i < CONTROL_NAME; i++)
		name[i] = control_name[i];
	if (bpf_getsockopt(s, SOL_TCP, TCP_CONGESTION, c->previous, CONTROL_NAME))
		return;
	if (c->previous[0] == name[0] && c->previous[1] == name[1] && c->previous[2] == name[2] && c->previous[3] == name[3]) {	/* that of a csig before this one, which gives it back first */
		c->refused = now;
		return;
	}
	if (bpf_setsockopt(s, SOL_TCP, TCP_CONGESTION, name, CONTROL_NAME)) {
		c->refused = now;
		c->why = WHY_REFUSED;
		COUNT_CONTROL(refused);
		return;
	}
	COUNT_CONTROL(given);
}

inline_fn void receive(struct bpf_sock_ops *s)
{
	u8 o[OPTION_MOST];
	struct flow *f = flow_of(s);

	if (!f)
		return;
	u64 now = bpf_ktime_get_ns();
	if (load(s, o, OPTION_HEAD + 2, 0)) {
		if (o[1] && o[1] != (option_exid ? 4 : 0))	/* there is one, of another length */
			COUNT(malformed);
		return;
	}
	u16 tci = swap16(*(u16 *)&o[OPTION_HEAD]);
	if (note(f->learned, tci, now)) {
		COUNT(malformed);
		return;
	}
	f->reflected = now;
	f->missed = 0;
	f->reflections++;
	COUNT(reflections);
	control(s, tci, now);
}

SEC("sockops")
int csig_reflect(struct bpf_sock_ops *s)
{
	struct ends e = {};
	int on = 1;

	switch (s->op) {
	case CONNECT_CB:
	case LISTEN_CB:
		if (bpf_get_netns_cookie(s) != netns_cookie)
			break;
		if (s->op == LISTEN_CB) {
			if (!has_port(&ports, s->local_port) || bpf_setsockopt(s, SOL_TCP, TCP_SAVE_SYN, &on, sizeof on))
				break;
		} else {
			ends_of(s, &e);
			if (!has_port(&ports, e.remote_port) || !is_expected(e.remote))
				break;
		}
		call(s);
		break;
	case ACTIVE_ESTABLISHED_CB:
	case PASSIVE_ESTABLISHED_CB:
		if (bpf_get_netns_cookie(s) == netns_cookie)
			established(s, s->op == ACTIVE_ESTABLISHED_CB);
		break;
	case HDR_OPT_LEN_CB:
		if (bpf_get_netns_cookie(s) == netns_cookie)
			reserve(s);
		break;
	case WRITE_HDR_OPT_CB:
		if (bpf_get_netns_cookie(s) == netns_cookie)
			write(s);
		break;
	case PARSE_HDR_OPT_CB:
		receive(s);
		break;
	}
	return 1;
}

/* csig_listeners has servers that ran before csig answer the option, too. */
SEC("iter/tcp")
int csig_listeners(struct bpf_iter__tcp *c)
{
	struct sock_common *sk = c->sk_common;
	int on = 1, calls = 0;

	if (!sk || sk->skc_state != TCP_LISTEN || !has_port(&ports, sk->skc_num))
		return 0;
	void *tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || bpf_setsockopt(tp, SOL_TCP, TCP_SAVE_SYN, &on, sizeof on))
		return 0;
	bpf_getsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &calls, sizeof calls);
	calls |= WRITE_FLAG | PARSE_UNKNOWN_FLAG;
	bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &calls, sizeof calls);
	return 0;
}

/* A connection as user space reads it. */
struct entry {
	struct ends ends;
	u32 pad;
	u64 now;
	struct flow flow;
	struct control control;
	char under[CONTROL_NAME];	/* the control that it is under */
};
const struct entry *entry_type __attribute__((unused)); /* for bpf2go, which knows the types of what is global */

/* Of the kernel's own structures (CO-RE). */
struct tcp_congestion_ops { char name[CONTROL_NAME]; } core;
struct inet_connection_sock { const struct tcp_congestion_ops *icsk_ca_ops; } core;
struct tcp_sock { struct inet_connection_sock inet_conn; } core;

/* ends_of_sock reads the ends of a kernel's socket. */
inline_fn void ends_of_sock(struct sock *sk, struct ends *e)
{
	if (sk->__sk_common.skc_family == AF_INET) {
		map4(e->remote, sk->__sk_common.skc_daddr);
		map4(e->local, sk->__sk_common.skc_rcv_saddr);
	} else {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			e->remote[i] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[i];
			e->local[i] = sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[i];
		}
	}
	e->remote_port = swap16(sk->__sk_common.skc_dport);
	e->local_port = sk->__sk_common.skc_num;
}

#include "revise.h"

SEC("iter/bpf_sk_storage_map")
int csig_list(struct bpf_iter__bpf_sk_storage_map *c)
{
	struct sock *sk = c->sk;
	struct flow *f = c->value;
	struct entry e = {};

	if (!sk || !f || f->left)
		return 0;
	ends_of_sock(sk, &e.ends);
	e.now = bpf_ktime_get_ns();
	e.flow = *f;
	struct control *has = bpf_sk_storage_get(&controls, sk, 0, 0);
	if (has)
		e.control = *has;
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	if (tp && tp->inet_conn.icsk_ca_ops)
		bpf_probe_read_kernel_str(e.under, sizeof e.under, tp->inet_conn.icsk_ca_ops->name);
	bpf_seq_write(c->meta->seq, &e, sizeof e);
	return 0;
}

char _license[] SEC("license") = "GPL"; /* as the kernel spells what the object is under: GPL-2.0 OR Apache-2.0 */
