/* What a changed fleet file does to connections that are open. For tcp.bpf.c alone. */
#pragma once

const volatile u32 forget;	/* whether tags that were read before mean something else now */

/* csig_revise goes through all connections after their programs were replaced. */
SEC("iter/bpf_sk_storage_map")
int csig_revise(struct bpf_iter__bpf_sk_storage_map *c)
{
	struct sock *sk = c->sk;
	struct flow *f = c->value;
	struct ends e;

	if (!sk || !f)
		return 0;
	ends_of_sock(sk, &e);
	f->left = !has_port(&ports, f->active ? e.remote_port : e.local_port) || !is_expected(e.remote);
#pragma unroll
	for (int i = 0; i < SIGNALS; i++) {
		if (forget)
			f->received[i].at = f->learned[i].at = 0;
		if (forget || !weight)
			f->received[i].averaged = f->learned[i].averaged = 0;
	}
	return 0;
}
