//go:build ignore

/* csig's congestion control: cubic, and beside it a share of the head-room that the signal shows
 * (draft-ravi-ippm-csig-00 §8.1.2, §8.1.3). It has connections for as long as signals come (control.h), and gives them
 * back to the system's control by itself, since what hands them over may be gone. */
#include "control.h"

const volatile u64 age;	/* ns: what a port writes now is known to no sender before; without the path's delay */
const volatile u64 current;	/* ns: an older signal gives no head-room */
const volatile u64 stops;	/* ns: without one so long the connection is given back */
const volatile u32 jump_share, ramp_share;	/* N of 1/N */

#define SECOND 1000000000ULL
#define MOST_HELD 4	/* 16 s */
#define BIG_WINDOW 64	/* packets: of a connection that is past its start */
#define INFINITE 0x7fffffff
#define UNLIMITED 0xffffffff	/* as SO_MAX_PACING_RATE has it */

#define CA_CWR 2	/* and above: recovery, loss */
#define EVENT_CWND_RESTART 1
#define PACING_NONE 0
#define PACING_NEEDED 1

/* Of the kernel's own structures (CO-RE). */
struct sock___paced {
	u64 sk_max_pacing_rate;
	u32 sk_pacing_status;
} core;
struct minmax_sample { u32 t, v; } core;
struct minmax { struct minmax_sample s[3]; } core;
struct tcp_sock {
	u32 snd_cwnd, snd_ssthresh, snd_cwnd_clamp, srtt_us, mss_cache, delivered, max_packets_out;
	struct minmax rtt_min;
} core;
struct ack_sample { u32 pkts_acked; } core;
enum tcp_ca_event { CSIG_NO_EVENT };

extern void cubictcp_init(struct sock *sk) __attribute__((section(".ksyms")));
extern u32 cubictcp_recalc_ssthresh(struct sock *sk) __attribute__((section(".ksyms")));
extern void cubictcp_cong_avoid(struct sock *sk, u32 ack, u32 acked) __attribute__((section(".ksyms")));
extern void cubictcp_state(struct sock *sk, u8 state) __attribute__((section(".ksyms")));
extern void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event) __attribute__((section(".ksyms"), weak));	/* before Linux 7.1 */
extern void cubictcp_cwnd_event_tx_start(struct sock *sk) __attribute__((section(".ksyms"), weak));	/* since then */
extern void cubictcp_acked(struct sock *sk, const struct ack_sample *sample) __attribute__((section(".ksyms")));
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __attribute__((section(".ksyms")));

inline_fn struct control *control_of(struct sock *sk) { return bpf_sk_storage_get(&controls, sk, 0, 0); }

/* delay is the path's own: a queue that csig's head-room made would ask for more. */
inline_fn u64 delay(const struct tcp_sock *tp)
{
	u64 us = tp->rtt_min.s[0].v, now = tp->srtt_us >> 3;

	if (!us || us > now)
		us = now;
	return us < 1000000 ? us : 1000000;
}

inline_fn u64 in_packets(const struct tcp_sock *tp, u64 rate)
{
	u64 mss = tp->mss_cache ? tp->mss_cache : 1;

	return rate * delay(tp) / 1000000 / mss;
}

/* begin_sample begins to measure what is delivered. */
inline_fn void begin_sample(struct control *c, const struct tcp_sock *tp, u64 now)
{
	c->sampled = now;
	c->delivered = tp->delivered;
}

/* hold takes no head-room for a time, where what was taken did not come through: another one took it, or it was never there. */
inline_fn void hold(struct control *c, u64 now)
{
	c->took = 0;
	c->next = now + (SECOND << (c->held & 7));
	if (c->held < MOST_HELD)
		c->held++;
	c->failed++;
	COUNT_CONTROL(failed);
}

/* set_pace limits the rate to bytes/s. What the application has set before holds, too. */
inline_fn void set_pace(struct sock *sk, struct control *c, u64 rate)
{
	u64 set = ((struct sock___paced *)sk)->sk_max_pacing_rate;

	if (!c->cap)
		c->before = set;
	else if (set != c->cap)
		return;	/* the application has set another one */
	u32 v = rate < UNLIMITED ? rate : UNLIMITED;
	if (v == UNLIMITED || rate >= c->before)
		return;
	if (!bpf_setsockopt(sk, SOL_SOCKET, SO_MAX_PACING_RATE, &v, sizeof v))
		c->cap = v;
}

inline_fn void end_pace(struct sock *sk, struct control *c)
{
	u32 v = c->before < UNLIMITED ? c->before : UNLIMITED;

	if (!c->cap)
		return;
	if (((struct sock___paced *)sk)->sk_max_pacing_rate == c->cap)
		bpf_setsockopt(sk, SOL_SOCKET, SO_MAX_PACING_RATE, &v, sizeof v);
	c->cap = 0;
}

/* pace has the kernel spread what a larger window lets out. */
inline_fn void pace(struct sock *sk, struct control *c)
{
	struct sock___paced *p = (void *)sk;

	if (p->sk_pacing_status == PACING_NONE) {
		p->sk_pacing_status = PACING_NEEDED;
		c->paced = 1;
	}
}

/* give_back has the system's own control have the connection again, as it was. */
inline_fn void give_back(struct sock *sk, struct control *c)
{
	struct sock___paced *p = (void *)sk;
	char name[CONTROL_NAME];

	end_pace(sk, c);
	if (c->paced && p->sk_pacing_status == PACING_NEEDED)
		p->sk_pacing_status = PACING_NONE;
	c->paced = 0;
	__builtin_memcpy(name, c->previous, sizeof name);
	c->giving = 1;
	if (bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, name, sizeof name)) {
		c->giving = 0;
		return;	/* that control's module is gone: without signals this one is cubic */
	}
	c->giving = 0;
	if (c->why == WHY_STALE) {
		COUNT_CONTROL(stale);
	} else {
		c->why = WHY_STOPPED;
		COUNT_CONTROL(stopped);
	}
}

/* raise has a window be at least so many packets, and not more than the application allows. */
inline_fn int raise(struct sock *sk, struct control *c, struct tcp_sock *tp, u64 window, u64 took, u64 now)
{
	if (window > tp->snd_cwnd_clamp)
		window = tp->snd_cwnd_clamp;
	if (window <= tp->snd_cwnd)
		return 0;
	tp->snd_cwnd = window;
	pace(sk, c);
	c->took += took;
	c->seen = c->room;
	begin_sample(c, tp, now);
	c->next = now + age + (u64)(tp->srtt_us >> 3) * 1000;
	return 1;
}

/* uses_window is whether the window limits the connection, and not the application or the receiver. */
inline_fn int uses_window(const struct tcp_sock *tp)
{
	return tp->max_packets_out >= tp->snd_cwnd - tp->snd_cwnd / 4;
}

/* take takes head-room where a signal shows some that this connection has not taken yet. */
inline_fn void take(struct sock *sk, struct control *c, struct tcp_sock *tp, u64 now)
{
	u64 srtt = tp->srtt_us >> 3, room = c->room, share;

	if (now - c->at >= current || !srtt)
		return;
	if (c->took) {
		/* What was taken makes the room smaller, sooner or later: what it is larger by now is new. */
		if (room <= c->seen || tp->snd_cwnd < tp->snd_ssthresh)
			return;
		room -= c->seen;
	} else if (c->at < c->next) {
		return;
	}
	if (tp->snd_cwnd < tp->snd_ssthresh) {
		/* §8.1.3. What slow start adds it adds to the larger window, up to where the room ends. */
		if (!c->jump)
			return;
		c->jump = 0;
		u64 all = in_packets(tp, room);
		if (all < 2 * (u64)tp->snd_cwnd)
			return;	/* slow start is nearly there */
		if (tp->snd_ssthresh >= INFINITE && all < INFINITE)
			tp->snd_ssthresh = all;
		pace(sk, c);
		share = room / (jump_share ? jump_share : 1);
		if (raise(sk, c, tp, in_packets(tp, share), share, now)) {
			c->jumps++;
			COUNT_CONTROL(jumps);
		}
		return;
	}
	/* §8.1.2, of a connection that uses its window and whose rate is known. */
	if (!c->rate || !uses_window(tp))
		return;
	share = room / (ramp_share ? ramp_share : 1);
	u64 had = (u64)tp->snd_cwnd * tp->mss_cache * 1000000 / srtt;
	if (had < c->rate)
		had = c->rate;
	if (!raise(sk, c, tp, tp->snd_cwnd + in_packets(tp, share), share, now))
		return;
	set_pace(sk, c, had + share + (had + share) / 16);	/* and headers */
	c->ramps++;
	COUNT_CONTROL(ramps);
}

/* measure ends a measurement that has lasted until its effects are in the signal. */
inline_fn void measure(struct sock *sk, struct control *c, struct tcp_sock *tp, u64 now)
{
	u64 lasted = now - c->sampled;

	if (lasted < age + (u64)(tp->srtt_us >> 3) * 1000)
		return;
	u64 rate = (u64)(tp->delivered - c->delivered) * tp->mss_cache * 1000000 / (lasted / 1000 ? lasted / 1000 : 1);
	if (c->took) {
		if (rate < c->rate + c->took / 4 && uses_window(tp))
			hold(c, now);
		else
			c->held = 0;
		c->took = 0;
	}
	c->rate = rate;
	begin_sample(c, tp, now);
}

SEC("struct_ops")
void csig_init(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct tcp_sock *tp = (void *)ctx[0];
	struct control *c = control_of(sk);

	cubictcp_init(sk);
	if (!c)
		return;
	c->mine = 1;
	c->why = WHY_NONE;
	c->jump = 1;
	c->next = c->took = c->rate = 0;
	begin_sample(c, tp, bpf_ktime_get_ns());
	if (tp->snd_ssthresh >= INFINITE && tp->snd_cwnd > BIG_WINDOW)
		tp->snd_ssthresh = tp->snd_cwnd;	/* a control without one had it: that is no slow start */
}

SEC("struct_ops")
void csig_release(u64 *ctx)
{
	struct control *c = control_of((void *)ctx[0]);

	if (!c)
		return;
	c->mine = 0;
	if (!c->giving)
		c->why = WHY_CHOSEN;
}

SEC("struct_ops")
u32 csig_ssthresh(u64 *ctx) { return cubictcp_recalc_ssthresh((void *)ctx[0]); }

SEC("struct_ops")
u32 csig_undo(u64 *ctx) { return tcp_reno_undo_cwnd((void *)ctx[0]); }

SEC("struct_ops")
void csig_state(u64 *ctx)
{
	struct control *c = control_of((void *)ctx[0]);
	struct tcp_sock *tp = (void *)ctx[0];
	u8 state = ctx[1];

	if (c && state >= CA_CWR) {
		u64 now = bpf_ktime_get_ns(), next = now + age + (u64)(tp->srtt_us >> 3) * 1000;
		if (c->took)
			hold(c, now);
		if (c->next < next)
			c->next = next;
	}
	cubictcp_state((void *)ctx[0], state);
}

SEC("struct_ops")
void csig_event(u64 *ctx)
{
	struct control *c = control_of((void *)ctx[0]);

	if (c && (u32)ctx[1] == EVENT_CWND_RESTART) {
		u64 now = bpf_ktime_get_ns();
		c->jump = 1;
		if (c->next <= now)
			c->next = now + 1;	/* what came before it was idle is not of now */
	}
	if (cubictcp_cwnd_event)
		cubictcp_cwnd_event((void *)ctx[0], ctx[1]);
}

/* csig_tx_start is what of csig_event's Linux 7.1 made a callback of its own: loaded only where it has that one. */
SEC("struct_ops")
void csig_tx_start(u64 *ctx)
{
	if (cubictcp_cwnd_event_tx_start)
		cubictcp_cwnd_event_tx_start((void *)ctx[0]);
}

/* csig_acked is called for each ACK of something new, also where packets are lost. */
SEC("struct_ops")
void csig_acked(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct tcp_sock *tp = (void *)ctx[0];
	struct control *c = control_of(sk);

	cubictcp_acked(sk, (void *)ctx[1]);
	if (!c || !c->mine)
		return;
	u64 now = bpf_ktime_get_ns();
	if (now - c->at >= stops) {
		give_back(sk, c);
		return;
	}
	measure(sk, c, tp, now);
	if (!c->took)
		end_pace(sk, c);
}

SEC("struct_ops")
void csig_avoid(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct tcp_sock *tp = (void *)ctx[0];
	struct control *c = control_of(sk);

	cubictcp_cong_avoid(sk, ctx[1], ctx[2]);
	if (c && c->mine)
		take(sk, c, tp, bpf_ktime_get_ns());
}

struct tcp_congestion_ops {
	void *ssthresh, *cong_avoid, *set_state, *cwnd_event, *cwnd_event_tx_start, *pkts_acked, *undo_cwnd, *init, *release;
	char name[CONTROL_NAME];
};

/* Each network namespace whose connections are csig's has one, with a name of its own. */
SEC(".struct_ops.link")
struct tcp_congestion_ops csig_control = {
	.ssthresh = csig_ssthresh, .cong_avoid = csig_avoid, .set_state = csig_state, .cwnd_event = csig_event,
	.cwnd_event_tx_start = csig_tx_start,
	.pkts_acked = csig_acked, .undo_cwnd = csig_undo, .init = csig_init, .release = csig_release,
};

char _license[] SEC("license") = "GPL";
