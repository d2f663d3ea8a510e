/* TCP, per connection. Open ones are walked when user space reads, which costs
 * the data path nothing; what one had received is told once more when it
 * closes, or the bytes after the last walk would be lost. */
#include "kernel.h"

char license_text[] SEC("license") = "Dual MIT/GPL";

/* One connection; as user space reads it from the walk and from the ring. */
struct tcp_count {
	u64 cookie;
	u64 bytes;
	u32 segments;
	u32 interface;
	u8 peer[16];
	u8 local[16];
	u16 peer_port; /* host order, as all here */
	u16 local_port;
	u32 closed;
};

/* Set before loading. */
const volatile u32 network_inode; /* of the namespace; others' connections are not ours */
const volatile u32 every_port;	  /* 1: the set of ports is not asked */

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 64);
	TYPE(key, u16);
	TYPE(value, u8);
} ports SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 1 << 18);
} closed SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u64);
} lost SEC(".maps");

INLINE void mapped(u8 *to, u32 v4)
{
	to[10] = to[11] = 0xff;
	__builtin_memcpy(to + 12, &v4, 4);
}

/* fill is 0 where the connection is none of ours. */
INLINE int fill(struct tcp_count *c, struct tcp_sock *tcp)
{
	struct sock *sk = &tcp->inet_conn.icsk_inet.sk;
	u16 port = swap16(tcp->inet_conn.icsk_inet.inet_sport); /* skc_num is 0 by the time it closes */
	if (sk->__sk_common.skc_net.net->ns.inum != network_inode)
		return 0;
	if (!every_port && !map_lookup(&ports, &port))
		return 0;
	__builtin_memset(c, 0, sizeof *c);
	c->bytes = tcp->bytes_received;
	c->segments = tcp->data_segs_in;
	c->local_port = port;
	c->peer_port = swap16(sk->__sk_common.skc_dport);
	if (__builtin_preserve_field_info(sk->sk_rx_dst_ifindex, 2))
		c->interface = sk->sk_rx_dst_ifindex;
	if (sk->__sk_common.skc_family == AF_INET) {
		mapped(c->peer, sk->__sk_common.skc_daddr);
		mapped(c->local, sk->__sk_common.skc_rcv_saddr);
	} else if (sk->__sk_common.skc_family == AF_INET6) {
		probe_read_kernel(c->peer, 16, &sk->__sk_common.skc_v6_daddr);
		probe_read_kernel(c->local, 16, &sk->__sk_common.skc_v6_rcv_saddr);
	} else {
		return 0;
	}
	return 1;
}

SEC("iter/tcp")
int walk(struct bpf_iter__tcp *ctx)
{
	struct sock_common *any = ctx->sk_common;
	struct tcp_count c;
	if (!any)
		return 0;
	struct tcp_sock *tcp = to_tcp_sock(any);
	if (!tcp || tcp->inet_conn.icsk_inet.sk.__sk_common.skc_state == TCP_LISTEN || !fill(&c, tcp))
		return 0;
	c.cookie = socket_cookie(tcp);
	seq_write(ctx->meta->seq, &c, sizeof c);
	return 0;
}

SEC("tp_btf/inet_sock_set_state")
int close_one(u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];
	struct tcp_count c;
	int before = (int)ctx[1], after = (int)ctx[2];
	if (after != TCP_CLOSE || before == TCP_LISTEN || sk->sk_protocol != PROTOCOL_TCP)
		return 0;
	struct tcp_sock *tcp = to_tcp_sock(sk);
	if (!tcp || !fill(&c, tcp))
		return 0;
	c.cookie = socket_cookie(tcp);
	c.closed = 1;
	if (ringbuf_output(&closed, &c, sizeof c, 0)) {
		u32 zero = 0;
		u64 *n = map_lookup(&lost, &zero);
		if (n)
			__sync_fetch_and_add(n, 1);
	}
	return 0;
}
