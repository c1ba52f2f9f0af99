//go:build ignore

/* A CSIG data plane at tcx egress: it measures what leaves a port, interval by interval,
 * and replaces the signal of tags that are better than the port's own
 * (draft-ravi-ippm-csig-00 §5.4). Numbers in frames are in network order; a build is for
 * little-endian machines. */
#include "bpf.h"

#define SIGNALS 4
#define EDGES 32	/* of which the last is never reached */
#define MAX_VLANS 4	/* in front of a tag (draft-00 §4.1) */
#define TAGS 6		/* kinds of CSIG tags */
#define MAX_UNITS 8	/* of 4 bytes, in a row of tags that strip looks at */

/* When tags are removed. */
#define ALWAYS 1
#define WHILE_STALE 2

#define IP_UDP 17

/* What a signal of the queue counts. */
#define QUEUE_BYTES 1
#define QUEUE_FRAMES 2

/* A signal as one port carries it. Its value x is a number of bytes: those of the last
 * interval, or those queued; or of frames that are queued. */
struct signal {
	u16 lm, wide_lm;	/* locators, shifted into place */
	u8 carried, max, queue, pad;	/* queue: QUEUE_BYTES, QUEUE_FRAMES, or 0 */
	u64 a, b, d;		/* wide S: (a - b x) / d for min signals, b x / d for max */
	u64 limit;		/* the first x for which S of the wide tag is at its end */
	u64 edges[EDGES];	/* ascending: x is past as many of them as buckets are worse, or better */
};

struct port {
	u64 deadline;		/* of CLOCK_MONOTONIC, in ns: from here on the port advertises stale */
	u64 interval;		/* ns */
	u64 capacity;		/* bytes that the link sends in an interval; 0: not known */
	u64 pace;		/* ticks that a byte takes of the link, times 2^20; 0: not known */
	u64 hold;		/* ticks that what the device's queues hold unseen takes at most */
	u32 slot;		/* of its state and its statistics */
	u16 overhead;		/* bytes a frame has on the wire beyond those that the kernel sees */
	u16 shortest;		/* bytes that the device fills shorter frames up to; 0: none */
	struct {
		u16 tpid;	/* network order; 0: none */
		u8 size, strip;	/* 4 or 8 bytes; when the port removes such tags */
	} tags[TAGS];		/* the domain's compact one, its wide one, then retired ones */
	u16 stale_lm, stale_wide_lm;
	u8 uec, update;
	u8 strip;		/* when it removes any: those of tags together */
	u8 pass_stale;		/* while it is stale, tags pass untouched */
	u32 version;		/* another one for each entry that is written */
	u32 pad;
	struct signal signals[SIGNALS];
};

struct state {
	u64 start;	/* of the interval that is open; 0: no frame came yet */
	u64 bytes;	/* of it so far */
	u64 own;	/* compact S by last (own_by) */
	u32 drops;	/* frames that the queue had dropped */
	u32 size;	/* of a segment of the last frame, on the wire */
	u64 closed;	/* whether an interval has closed */
	u64 last;	/* bytes of the interval before */
	u64 total;	/* bytes of all that have closed */
	u64 lost;	/* of bytes, what the queue has dropped */
	u64 free;	/* tick at which the link has sent all frames, one after the other */
	u64 seen;	/* sent_by at the last frame */
	u64 sent;	/* of sent_by, what intervals that have closed have counted */
	u32 shaper;	/* handle of the queue that counts sent; 0: none */
	u32 frame;	/* of the last frame, on the wire */
	u32 waited;	/* whether it may have waited */
	u32 pad;
};

struct stats {
	u64 frames, passed, stripped, updated[SIGNALS];
};

#define PORTS 1024

/* The slot of a device's port. Only csig's devices are there, so that any index fits and a look
 * at all of them costs no more than they are. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PORTS);
	__type(key, u32);	/* ifindex */
	__type(value, u32);
} csig_places SEC(".maps");

/* Which of a slot's two elements of csig_ports is live: 1 or 2; 0: none. They are written in
 * turns, so that a frame sees one or the other whole; this changes last, and is one byte. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);	/* looked up without a call */
	__uint(max_entries, PORTS);
	__type(key, u32);
	__type(value, u8);
} csig_live SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * PORTS);
	__type(key, u32);	/* 2 slot + live - 1 */
	__type(value, struct port);
} csig_ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PORTS);
	__type(key, u32);
	__type(value, struct state);
} csig_state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PORTS);
	__type(key, u32);
	__type(value, struct stats);
} csig_stats SEC(".maps");

/* What csig is to find again: no frame needs it. */
struct record {
	u32 size;	/* of text, in bytes */
	u8 text[65532];	/* the setup, as JSON */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct record);
} csig_setup SEC(".maps");

/* load16 reads two bytes of the frame: where they are in its first piece, as nearly always,
 * without a call. */
inline_fn int load16(struct __sk_buff *skb, u32 offset, u16 *v)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	if (data + offset + 2 <= end) {
		*v = *(u16 *)(data + offset);
		return 0;
	}
	return bpf_skb_load_bytes(skb, offset, v, 2);
}

inline_fn int is_vlan(u16 tpid) { return tpid == 0x0081 || tpid == 0xa888; }

/* csig is which kind of CSIG tag it is, TAGS for none. */
inline_fn u32 csig(const struct port *p, u16 tpid)
{
#pragma unroll
	for (u32 i = 0; i < TAGS; i++)
		if (tpid && tpid == p->tags[i].tpid)
			return i;
	return TAGS;
}

/* drops takes back what the queue has dropped since the frame before. Queues drop the frame
 * that comes to a full one, so it was that frame; where several processors send, or a queue
 * drops others, its size stands for theirs. tbf drops single segments of a frame: one drop is
 * one segment, so that never more is taken back than was dropped. */
inline_fn void drops(const struct Qdisc *q, const struct port *p, struct state *s)
{
	u32 now = q->qstats.drops, seen = *(volatile u32 *)&s->drops, n = now - seen;

	if (!n || __sync_val_compare_and_swap(&s->drops, seen, now) != seen)
		return;
	if (n < 1 << 16) {	/* else it is another queue, which counts from 0 */
		u64 bytes = (u64)n * *(volatile u32 *)&s->size;
		__sync_fetch_and_add(&s->lost, bytes);
		__sync_fetch_and_add(&s->free, -(bytes * p->pace >> 20));
	}
}

/* past is how many of the edges x has reached, 0 to 31. */
inline_fn u32 past(const struct signal *g, u64 x)
{
	u32 n = 0;
#pragma unroll
	for (int step = 16; step; step >>= 1)
		if (x >= g->edges[(n + step - 1) & 31])
			n += step;
	return n;
}

/* bucket is the compact S of x. */
inline_fn u32 bucket(const struct signal *g, u64 x)
{
	return g->max ? past(g, x) : 31 - past(g, x);
}

#define KNOWN 0x80

/* own_by is what frames need of an interval that has closed: the entry's version, and of each
 * signal that the interval's bytes decide a byte with S and KNOWN. */
static __attribute__((noinline)) u64 own_by(const struct port *p, u64 last)
{
	u64 own = (u64)p->version << 32;
#pragma unroll
	for (int i = 0; i < SIGNALS; i++)
		if (p->signals[i].carried && !p->signals[i].queue)
			own |= (u64)(bucket(&p->signals[i], last) | KNOWN) << 8 * i;
	return own;
}

/* shapes reports whether a queue is a shaper, which stands for the link: nothing waits behind it. */
inline_fn int shapes(const struct Qdisc *q)
{
	u32 id = *(const u32 *)q->ops->id;

	return id == 0x666274 || id == 0x627468; /* "tbf", "htb" */
}

/* sent_by is how many bytes have left a shaper, on the wire. */
inline_fn u64 sent_by(const struct Qdisc *q, const struct port *p)
{
	return q->bstats.bytes.v.a.a.counter + q->bstats.packets.v.a.a.counter * p->overhead;
}

inline_fn u64 least(u64 a, u64 b) { return a < b ? a : b; }

/* A tick is 1/64 ns: what a short frame takes of a fast link is a few. */
#define TICKS(ns) ((u64)(ns) << 6)

/* after is how many bytes the link sends after an instant, where it is free then. */
inline_fn u64 after(const struct port *p, u64 free, u64 ns)
{
	s64 rest = free - TICKS(ns);

	return rest > 0 && p->pace ? (least(rest, 1ULL << 43) << 20) / p->pace : 0;
}

/* roll closes the interval if it is over. One processor does it; frames that others
 * account in between count for either interval. What a queue was given is not sent: what a shaper
 * has sent, its counter says; of another queue, what the link cannot have sent yet is of the next
 * interval. A counter is read behind the interval's end: where the last frame may have waited,
 * what was sent since that counts in both intervals. */
inline_fn void roll(const struct Qdisc *q, const struct port *p, struct state *s, u64 now)
{
	u64 start = *(volatile u64 *)&s->start, seen = *(volatile u64 *)&s->seen, free = *(volatile u64 *)&s->free;
	u32 waited = *(volatile u32 *)&s->waited;

	if (!start) {
		__sync_val_compare_and_swap(&s->start, 0, now);
		return;
	}
	s64 open = now - start;
	if (open < (s64)p->interval || !p->interval)
		return;
	u64 n = (u64)open / p->interval;
	if (__sync_val_compare_and_swap(&s->start, start, start + n * p->interval) != start)
		return;
	start += n * p->interval;
	u64 given = __sync_fetch_and_and(&s->bytes, 0), lost = __sync_fetch_and_and(&s->lost, 0);
	given -= least(lost, given);
	u64 total = __sync_fetch_and_add(&s->total, given) + given, again = 0, sent, last = given;
	u32 shaper = shapes(q) ? q->handle : 0;
	if (shaper) {
		sent = sent_by(q, p);
		if (waited && seen <= sent)
			again = sent - seen;
	} else {
		sent = total - least(after(p, free, start), total);
	}
	int same = shaper == s->shaper && sent >= s->sent; /* else it counts from 0 */
	if (same)
		last = sent - s->sent;
	if (n > 1) {	/* frames came in the first one alone; a shaper may be late with the rest by half its time */
		u64 late = free + (shaper ? TICKS(p->interval) + (again * p->pace >> 21) : 0);
		last = after(p, late, start - p->interval) - after(p, late, start);
		if (shaper && !waited)
			last = 0;
		else if (shaper && same)
			last = q->qstats.backlog ? p->capacity : least(last, again);
		if (shaper && !q->qstats.backlog)
			again = least(again, after(p, late, start));
	}
	if (p->capacity)
		last = least(last, p->capacity);
	u64 own = own_by(p, last);
	/* A processor that was held up writes nothing over the interval after its own. */
	if (*(volatile u64 *)&s->start == start) {
		*(volatile u64 *)&s->sent = sent - again;
		*(volatile u32 *)&s->shaper = shaper;
		*(volatile u64 *)&s->last = last;
		*(volatile u64 *)&s->own = own;
	}
	*(volatile u64 *)&s->closed = 1;
}

/* queued notes what the frame finds waiting: the link is not free before that is sent, and where
 * no more waits than it shows not much later. A frame that is segmented later waits for itself. */
inline_fn void queued(const struct Qdisc *q, const struct port *p, struct state *s, u64 now, u32 segmented)
{
	u64 free = *(volatile u64 *)&s->free, waits = least(q->qstats.backlog, 1 << 30) + (u64)q->q.qlen * p->overhead;
	u64 from = TICKS(now) + (waits * p->pace >> 20), to = from + p->hold;

	if (shapes(q)) {
		to = from + (*(volatile u32 *)&s->frame * p->pace >> 20);
		*(volatile u64 *)&s->seen = sent_by(q, p);
	}
	u64 is = free < from ? from : least(free, to);
	if (is != free)
		__sync_val_compare_and_swap(&s->free, free, is);
	*(volatile u32 *)&s->waited = is > TICKS(now) || segmented;
}

inline_fn u32 wide_s(const struct signal *g, u64 x)
{
	if (x >= g->limit)
		return g->max ? 0xfffff : 0;
	u64 s = (g->max ? g->b * x : g->a - g->b * x) / g->d;
	return s > 0xfffff ? 0xfffff : s;
}

/* value is what a signal's S is computed from: bytes of the last interval, or queued ones. */
inline_fn u64 value(struct __sk_buff *skb, const struct signal *g, const struct state *s)
{
	if (g->queue) {
		struct sk_buff *k = bpf_cast_to_kern_ctx(skb);
		struct Qdisc *q = k->dev->qdisc;
		return g->queue == QUEUE_FRAMES ? q->q.qlen : q->qstats.backlog;
	}
	return *(volatile u64 *)&s->last;
}

/* A tag as it was found. */
struct found {
	u32 offset;	/* of its TPID; 0: it is metadata */
	u32 size;	/* 4 or 8; 0: no tag */
};

/* find walks the row of L2 tags: the CSIG tag is the last (draft-00 §4.1). */
inline_fn struct found find(struct __sk_buff *skb, const struct port *p)
{
	struct found none = {}, at = {};
	u32 vlans = 0, offset = 12;
	u16 type;

	if (skb->vlan_present) {
		u16 proto = skb->vlan_proto;
		u32 kind = csig(p, proto);
		if (kind) {
			if (kind < TAGS)
				return none;	/* another domain's, or a wide one, which no driver of ours offloads */
		} else {
			at.size = 4;
			goto behind;
		}
		vlans = 1;
	}
#pragma unroll
	for (int i = 0; i <= MAX_VLANS; i++) {
		if (load16(skb, offset, &type))
			return none;
		u32 kind = csig(p, type);
		if (kind <= 1) {
			at.offset = offset;
			at.size = kind ? 8 : 4;
			offset += at.size;
			goto behind;
		}
		if (kind < TAGS || !is_vlan(type) || vlans == MAX_VLANS)
			return none;
		vlans++;
		offset += 4;
	}
	return none;
behind:
	if (load16(skb, offset, &type) || csig(p, type) < TAGS || is_vlan(type))
		return none;
	return at;
}

/* compact_s is S of a signal, which is computed once in an interval, and again by another entry. */
inline_fn u32 compact_s(struct __sk_buff *skb, const struct port *p, struct state *s, u32 t)
{
	const struct signal *g = &p->signals[t];
	u64 own = *(volatile u64 *)&s->own;

	if (own >> 32 != p->version) {
		u64 now = own_by(p, *(volatile u64 *)&s->last);
		__sync_val_compare_and_swap(&s->own, own, now); /* unless an interval has closed meanwhile */
		own = now;
	}
	u32 of = own >> 8 * t;
	return of & KNOWN ? of & 31 : bucket(g, value(skb, g, s));
}

/* compact replaces the signal of a tag of 4 bytes, and returns whether it did. */
inline_fn int compact(struct __sk_buff *skb, const struct port *p, struct state *s, struct found at, int stale, u32 *t)
{
	u16 tci;

	if (!at.offset)
		tci = skb->vlan_tci;
	else if (load16(skb, at.offset + 2, &tci))
		return 0;
	else
		tci = swap16(tci);
	*t = tci >> 13;
	if (*t >= SIGNALS || (p->uec && tci & 1))
		return 0;
	const struct signal *g = &p->signals[*t & 3];
	if (!g->carried)
		return 0;
	u32 own = stale ? (g->max ? 31 : 0) : compact_s(skb, p, s, *t & 3), had = tci >> 7 & 31;
	if (g->max ? own <= had : own >= had)
		return 0;
	tci = (tci & 0xf000) | own << 7 | (stale ? p->stale_lm : g->lm);
	if (!at.offset) {
		u16 proto = skb->vlan_proto;
		return !bpf_skb_vlan_pop(skb) && !bpf_skb_vlan_push(skb, proto, tci);
	}
	tci = swap16(tci);
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	u16 *there = data + at.offset + 2;
	if ((void *)(there + 1) <= end) {
		bpf_csum_update(skb, (u16)~*there + (u32)tci);
		*there = tci;
		return 1;
	}
	return !bpf_skb_store_bytes(skb, at.offset + 2, &tci, 2, BPF_F_RECOMPUTE_CSUM);
}

/* wide replaces the signal of a tag of 8 bytes: TPID, LM(16) T(4) S(20) R(8). */
inline_fn int wide(struct __sk_buff *skb, const struct port *p, const struct state *s, struct found at, int stale, u32 *t)
{
	struct { u16 lm, high, low; } __attribute__((packed)) f;

	if (bpf_skb_load_bytes(skb, at.offset + 2, &f, 6))
		return 0;
	u32 rest = (u32)swap16(f.high) << 16 | swap16(f.low);
	*t = rest >> 28;
	if (*t >= SIGNALS || (p->uec && swap16(f.lm) & 1))
		return 0;
	const struct signal *g = &p->signals[*t & 3];
	if (!g->carried || (!stale && !g->d))
		return 0;
	u32 own = stale ? (g->max ? 0xfffff : 0) : wide_s(g, value(skb, g, s)), had = rest >> 8 & 0xfffff;
	if (g->max ? own <= had : own >= had)
		return 0;
	rest = (rest & 0xf00000ff) | own << 8;
	f.lm = swap16(stale ? p->stale_wide_lm : g->wide_lm);
	f.high = swap16(rest >> 16);
	f.low = swap16(rest);
	return !bpf_skb_store_bytes(skb, at.offset + 2, &f, 6, BPF_F_RECOMPUTE_CSUM);
}

#include "strip.h"

/* headers is how many bytes of a frame that is segmented later come again with each
 * segment. */
inline_fn u32 headers(struct __sk_buff *skb, struct sk_buff *k)
{
	u32 network = k->network_header, at = k->transport_header, mac = k->mac_header;
	u8 version, protocol, offset;

	if (k->inner_transport_header > at) {
		network = k->inner_network_header;
		at = k->inner_transport_header;
	}
	network -= mac;
	at -= mac;
	if (at > skb->len)	/* not what it was taken for */
		return 0;
	if (bpf_skb_load_bytes(skb, network, &version, 1) ||
	    bpf_skb_load_bytes(skb, network + (version >> 4 == 4 ? 9 : 6), &protocol, 1))
		return at;
	if (protocol == IP_UDP)
		return at + 8;
	if (bpf_skb_load_bytes(skb, at + 12, &offset, 1))
		return at;
	return at + (offset >> 4) * 4;
}

/* wire is what the frame is on the wire, in bytes, in so many segments. A card fills short frames
 * up; a shaper that stands for the link counts them as they are. */
inline_fn u64 wire(struct __sk_buff *skb, const struct port *p, const struct Qdisc *q, u32 *in)
{
	u32 tag = skb->vlan_present ? 4 : 0, segments = 1;
	u64 bytes = skb->len;

	if (skb->gso_size) {
		u32 h = headers(skb, bpf_cast_to_kern_ctx(skb));
		segments = skb->gso_segs;
		if (!segments)	/* not counted by who sent it */
			segments = (skb->len - h + skb->gso_size - 1) / skb->gso_size;
		if (segments > 1)
			bytes += (u64)(segments - 1) * h;
	}
	if (bytes + tag < p->shortest && !shapes(q))
		bytes = p->shortest - tag;
	*in = segments;
	return bytes + (u64)segments * (p->overhead + tag);
}

SEC("tcx/egress")
int csig_egress(struct __sk_buff *skb)
{
	u64 now = bpf_ktime_get_ns(); /* first: it waits for what was begun before */
	u32 ifindex = skb->ifindex, t = 0;
	const u32 *place = bpf_map_lookup_elem(&csig_places, &ifindex);

	if (!place)
		return TCX_NEXT;
	u32 slot = *place;
	const u8 *turn = bpf_map_lookup_elem(&csig_live, &slot);
	if (!turn)
		return TCX_NEXT;
	u32 live = *(const volatile u8 *)turn, element = 2 * slot + live - 1;
	if (!live)
		return TCX_NEXT;
	struct port *p = bpf_map_lookup_elem(&csig_ports, &element);
	if (!p)
		return TCX_NEXT;
	struct state *s = bpf_map_lookup_elem(&csig_state, &slot);
	struct stats *n = bpf_map_lookup_elem(&csig_stats, &slot);
	if (!s || !n)
		return TCX_NEXT;
	struct sk_buff *k = bpf_cast_to_kern_ctx(skb);
	const struct Qdisc *q = k->dev->qdisc;
	drops(q, p, s);
	roll(q, p, s, now);
	queued(q, p, s, now, skb->gso_size);
	n->frames++;
	int stale = now >= p->deadline || !*(volatile u64 *)&s->closed;
	u32 when = stale ? ALWAYS | WHILE_STALE : ALWAYS;
	if (p->strip & when) {
		struct removal r = { skb, p, when };
		bpf_loop(MAX_UNITS, strip, &r, 0);
		if (r.failed)
			return TCX_DROP;	/* a tag must not get past a port that strips (draft-00 §6.2) */
		n->stripped += !!r.removed;
	}
	if (p->update && !(stale && p->pass_stale)) {
		struct found at = find(skb, p);
		if (at.size) {
			if (at.size == 4 ? compact(skb, p, s, at, stale, &t) : wide(skb, p, s, at, stale, &t))
				n->updated[t & 3]++;
			else
				n->passed++;
		}
	}
	u32 segments;
	u64 size = wire(skb, p, q, &segments);
	*(volatile u32 *)&s->size = segments > 1 ? (u32)size / segments : size;
	*(volatile u32 *)&s->frame = size;
	__sync_fetch_and_add(&s->free, size * p->pace >> 20);
	__sync_fetch_and_add(&s->bytes, size);
	return TCX_NEXT;
}

char _license[] SEC("license") = "GPL"; /* as the kernel spells what the object is under: GPL-2.0 OR Apache-2.0 */
