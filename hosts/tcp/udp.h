/* Datagrams: a program asks for a tag by the priority of its socket, and reads the one that came as the mark of
 * what it receives; neither takes a privilege. For tcp.bpf.c alone. */
#pragma once

const volatile u16 first[SIGNALS];	/* by T: the tag that leaves */
const volatile u16 mesh_port;		/* of hosts that EXPECTS_MESH; 0: there is no mesh */

/* What a program has as SO_PRIORITY where it asks for T 0, and two more for each further T: even ones are those of IP_TOS,
 * and above 6 it takes a privilege. And what SO_RCVMARK gives beside a tag. */
#define PRIORITY_OF_T0 1
#define MARK_OF_TAGS 0xc5160000

/* A bit for each port of UDP whose datagrams may have a tag. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, u64);
} datagram_ports SEC(".maps");

/* The newest tags that datagrams came with, of the flows that were last active. */
struct datagram_flow {
	struct reading received[SIGNALS];	/* by T */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct ends);
	__type(value, struct datagram_flow);
} datagrams SEC(".maps");

/* datagram_is_authorised reports whether datagrams between these ends may have tags: either port is a server's. */
inline_fn int datagram_is_authorised(const struct ends *e)
{
	u32 expects = expected_by(e->remote);

	if (expects & EXPECTS_MESH && (e->remote_port == mesh_port || e->local_port == mesh_port))
		return 1;
	return expects & EXPECTS_TAGS && (has_port(&datagram_ports, e->remote_port) || has_port(&datagram_ports, e->local_port));
}

/* insert_datagram inserts the tag that the sender asks for. The priority goes no further: a queue would have tagged
 * datagrams overtake others, or be overtaken. */
inline_fn int insert_datagram(struct __sk_buff *skb)
{
	struct packet p;
	u32 t = (skb->priority - PRIORITY_OF_T0) >> 1;

	if (!(skb->priority & 1) || t >= SIGNALS || !(carried >> t & 1) || parse(skb, &p, 1) || !p.udp || !datagram_is_authorised(&p.e))
		return TCX_NEXT;
	asm volatile("" : "+r"(t));
	skb->priority = 0;
	if (bpf_skb_vlan_push(skb, TPID, first[t & (SIGNALS - 1)])) {
		COUNT(failed);
		return TCX_NEXT;
	}
	COUNT(datagrams_sent);
	return TCX_NEXT;
}

/* strip_datagram hands the receiver a tag that was removed. */
inline_fn void strip_datagram(struct __sk_buff *skb, const struct packet *p, u16 tci)
{
	u64 now = bpf_ktime_get_ns();

	if (!datagram_is_authorised(&p->e))
		return;
	struct datagram_flow *known = bpf_map_lookup_elem(&datagrams, &p->e);
	if (known) {
		if (note(known->received, tci, now))
			return;
	} else {
		struct datagram_flow f = {};
		if (note(f.received, tci, now))
			return;
		bpf_map_update_elem(&datagrams, &p->e, &f, 0);
	}
	skb->mark = MARK_OF_TAGS | tci;
	COUNT(datagrams_received);
}
