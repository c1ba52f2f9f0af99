/* The part of csig.bpf.c that removes tags. */
#pragma once

/* A search for the tag to remove: of the CSIG tags that are the last of the row, behind at
 * most four VLAN tags, the first that the port removes. */
struct search {
	struct __sk_buff *skb;
	const struct port *p;
	u32 when, vlans, offset, end;
	struct found at;
};

/* look looks at one tag of the row; the search ends with its last, or where it is none that
 * is looked at. It is one step of a loop, so that the verifier checks it once. */
static long look(u32 i, struct search *l)
{
	u16 type;

	if (bpf_skb_load_bytes(l->skb, l->offset, &type, 2))
		goto none;
	u32 kind = csig(l->p, type), size = 4;
	if (kind < TAGS) {
		size = l->p->tags[kind].size;
		if (l->p->tags[kind].strip & l->when && !l->at.size) {
			l->at.offset = l->offset;
			l->at.size = size;
		}
	} else if (is_vlan(type)) {
		l->at.size = 0;	/* what stands in front of a VLAN tag is not last */
		if (l->vlans++ == MAX_VLANS)
			goto none;
	} else {
		return 1;
	}
	l->offset += size;
	if (l->offset <= l->end)
		return 0;
none:
	l->at.size = 0;
	return 1;
}

inline_fn struct found doomed(struct __sk_buff *skb, const struct port *p, u32 when)
{
	struct search l = { .skb = skb, .p = p, .when = when, .offset = 12, .end = 12 + 4 * MAX_UNITS };

	if (skb->vlan_present) {
		u16 proto = skb->vlan_proto;
		u32 kind = csig(p, proto);
		if (kind >= TAGS)
			l.vlans = 1;
		else if (p->tags[kind].strip & when && p->tags[kind].size == 4)
			l.at.size = 4;
		l.end -= 4;
	}
	bpf_loop(MAX_UNITS + 1, look, &l, 0);
	return l.at;
}

/* What cut moves. */
struct move {
	struct __sk_buff *skb;
	u32 base, units, size, failed;
};

static long shift(u32 i, struct move *m)
{
	u32 at = m->base + 4 * (m->units - 1 - i), unit;

	m->failed = bpf_skb_load_bytes(m->skb, at, &unit, 4) ||
		    bpf_skb_store_bytes(m->skb, at + m->size, &unit, 4, BPF_F_RECOMPUTE_CSUM);
	return m->failed;
}

/* cut removes a tag. No helper removes bytes behind an ethertype that the kernel does not
 * know, but it pops VLAN tags: so the tags in front move back over the tag, VLAN tags take
 * their place, and all that was pushed or written is popped. */
inline_fn int cut(struct __sk_buff *skb, struct found at)
{
	u32 present = !!skb->vlan_present, base = present ? 12 : 16, vlan = 0x0081;
	struct move m = { .skb = skb, .base = base, .units = (at.offset + 4 - base) / 4, .size = at.size };

	if (bpf_skb_vlan_push(skb, 0x0081, 0) || (!present && bpf_skb_vlan_push(skb, 0x0081, 0)))
		return -1;
	bpf_loop(m.units, shift, &m, 0);
	if (m.failed || bpf_skb_store_bytes(skb, base, &vlan, 4, BPF_F_RECOMPUTE_CSUM) ||
	    (at.size == 8 && bpf_skb_store_bytes(skb, base + 4, &vlan, 4, BPF_F_RECOMPUTE_CSUM)))
		return -1;
	u32 pops = at.size / 4 + 2 - present;
	for (int i = 0; i < 4; i++)
		if (i < pops && bpf_skb_vlan_pop(skb))
			return -1;
	return 0;
}

/* Tags to remove. */
struct removal {
	struct __sk_buff *skb;
	const struct port *p;
	u32 when, removed, failed;
};

static long strip(u32 i, struct removal *r)
{
	struct found at = doomed(r->skb, r->p, r->when);

	if (!at.size)
		return 1;
	if (at.offset ? cut(r->skb, at) : bpf_skb_vlan_pop(r->skb)) {
		r->failed = 1;
		return 1;
	}
	r->removed++;
	return 0;
}
