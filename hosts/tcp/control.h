/* Which connections are under csig's congestion control: what the programs of tcp.bpf.c, which hand them over, share
 * with those of control.bpf.c, which are the control. */
#pragma once

#include "sockets.h"

#define CONTROL_NAME 16

/* Why the system's own control has a connection that csig's control had, or could have had. */
enum why { WHY_NONE, WHY_STOPPED, WHY_STALE, WHY_REFUSED, WHY_CHOSEN };

struct control {
	u64 at;		/* when the last valid signal came; 0: the last one was stale */
	u64 room;	/* bytes/s that it leaves at least */
	u64 next;	/* signals that come before give no head-room */
	u64 sampled;	/* when the measurement of the rate began */
	u64 rate;	/* bytes/s delivered in the one before */
	u64 took;	/* bytes/s of head-room that are to show in this one; 0: none were taken */
	u64 seen;	/* the room that it is a share of */
	u64 refused;	/* when the kernel last refused to change the control */
	u64 before;	/* what SO_MAX_PACING_RATE was, while cap is another */
	u32 delivered;	/* packets, when the measurement began */
	u32 cap;	/* bytes/s; 0: none */
	u32 jumps, ramps, failed;	/* head-room taken, and what of it did not come through */
	u8 mine;	/* csig's control has the connection */
	u8 why;
	u8 jump;	/* it may jump once */
	u8 held;	/* how often in a row what was taken did not come through */
	u8 giving;	/* csig changes the control itself */
	u8 paced;	/* csig had the kernel pace it */
	char previous[CONTROL_NAME];	/* the system's control, which gets it back */
	u8 pad[6];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct control);
} controls SEC(".maps");

struct control_counts {
	u64 given, stopped, stale;	/* to csig's control, and back */
	u64 refused;	/* by the kernel */
	u64 jumps, ramps, failed;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct control_counts);
} control_counters SEC(".maps");

#define COUNT_CONTROL(name) do {				\
	u32 first = 0;						\
	struct control_counts *n = bpf_map_lookup_elem(&control_counters, &first);	\
	if (n)							\
		n->name++;					\
} while (0)
