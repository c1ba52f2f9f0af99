/* The arithmetic of control.bpf.c as a program of this machine: it takes lines of what TCP knows and does, and prints what
 * is made of it. headroom_linux_test.go has package cc do the same. */
#include <stdio.h>
#include <string.h>

#include "../control.bpf.c"

const volatile u64 age = AGE, current = CURRENT, stops = ~0ULL;
const volatile u32 jump_share = JUMP, ramp_share = RAMP;

static struct control control;
static struct tcp_sock tp;
static struct sock___paced sk;
static u64 now;

static u64 time_now(void) { return now; }
static void *no_map(void *map, const void *key) { return 0; }
static long set(void *s, int level, int name, void *v, int size)
{
	sk.sk_max_pacing_rate = *(u32 *)v;
	return 0;
}
static void *storage(void *map, void *s, void *v, u64 flags) { return &control; }
/* CUBIC is the kernel's. */
void cubictcp_init(struct sock *s) {}
u32 cubictcp_recalc_ssthresh(struct sock *s) { return 0; }
void cubictcp_cong_avoid(struct sock *s, u32 ack, u32 acked) {}
void cubictcp_state(struct sock *s, u8 state) {}
void cubictcp_cwnd_event(struct sock *s, enum tcp_ca_event event) {}
void cubictcp_acked(struct sock *s, const struct ack_sample *sample) {}
u32 tcp_reno_undo_cwnd(struct sock *s) { return 0; }

int main(void)
{
	char what[16];
	u64 at, room, srtt, rtt, cwnd, thresh, mss, delivered, out;

	bpf_ktime_get_ns = time_now;
	bpf_map_lookup_elem = no_map;
	bpf_setsockopt = (void *)set;
	bpf_sk_storage_get = (void *)storage;
	sk.sk_max_pacing_rate = ~0ULL;
	while (scanf("%15s %llu %llu %llu %llu %llu %llu %llu %llu %llu %llu", what, &now, &at, &room, &srtt, &rtt, &cwnd, &thresh, &mss, &delivered, &out) == 11) {
		if (!strcmp(what, "init")) {	/* another connection */
			memset(&control, 0, sizeof control);
			sk.sk_max_pacing_rate = ~0ULL;
		}
		control.at = at;
		control.room = room;
		tp.srtt_us = srtt << 3;
		tp.rtt_min.s[0].v = rtt;
		tp.snd_cwnd = cwnd;
		tp.snd_ssthresh = thresh;
		tp.mss_cache = mss;
		tp.delivered = delivered;
		tp.max_packets_out = out;
		tp.snd_cwnd_clamp = ~0U;
		u64 ctx[2] = {(u64)&tp, CA_CWR};
		if (!strcmp(what, "init")) {
			csig_init(ctx);
		} else if (!strcmp(what, "slow")) {
			csig_state(ctx);
		} else if (!strcmp(what, "acked")) {
			measure((void *)&sk, &control, &tp, now);
			if (!control.took)
				end_pace((void *)&sk, &control);
		} else {
			take((void *)&sk, &control, &tp, now);
		}
		printf("%u %u %u %u %u %u\n", tp.snd_cwnd, tp.snd_ssthresh, control.jumps, control.ramps, control.failed, control.cap);
	}
	return 0;
}
