/* What these programs take from the kernel: types by name, of which CO-RE finds
 * the offsets when a program is loaded, and helpers by their fixed numbers. No
 * header of a library, so that clang alone compiles them. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define RELOCATED __attribute__((preserve_access_index))

/* A map's definition is its type: the loader reads it from BTF. */
#define UINT(name, value) int(*name)[value]
#define TYPE(name, type) type *name

#define swap16(x) __builtin_bswap16(x)
#define swap32(x) __builtin_bswap32(x)

enum {
	MAP_HASH = 1,
	MAP_ARRAY = 2,
	MAP_RINGBUF = 27,

	AF_INET = 2,
	AF_INET6 = 10,
	TCP_CLOSE = 7,
	TCP_LISTEN = 10,
	PROTOCOL_TCP = 6,
	PROTOCOL_UDP = 17,
	ETHER_IPV4 = 0x0800,
	ETHER_IPV6 = 0x86dd,
	ETHER_VLAN = 0x8100,
	ETHER_VLAN_OUTER = 0x88a8,

	FROM_MAC = 0, /* skb_load_bytes_relative */
	NEW_ONLY = 1, /* map_update: not if it is there */
	TC_NEXT = -1, /* verdict: as if the program were not there */
};

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*skb_load_bytes)(const void *skb, u32 offset, void *to, u32 bytes) = (void *)26;
static u64 (*socket_cookie)(void *sk) = (void *)46;
static long (*skb_load_bytes_relative)(const void *skb, u32 offset, void *to, u32 bytes, u32 start) = (void *)68;
static long (*probe_read_user)(void *to, u32 bytes, const void *from) = (void *)112;
static long (*probe_read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
static long (*seq_write)(void *seq, const void *data, u32 bytes) = (void *)127;
static long (*ringbuf_output)(void *ring, void *data, u64 bytes, u64 flags) = (void *)130;
static struct tcp_sock *(*to_tcp_sock)(void *sk) = (void *)137;
static long (*probe_read_user_text)(void *to, u32 bytes, const void *from) = (void *)114;

/* The context of programs on packets, as the kernel promises it. */
struct __sk_buff {
	u32 len, before[9], ifindex, after[8], data, data_end;
};

/* The processor's registers where a probe in user space was hit. */
struct pt_regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
};

struct in6_addr {
	u8 bytes[16];
};

struct ns_common {
	u32 inum;
} RELOCATED;

struct net {
	struct ns_common ns;
} RELOCATED;

typedef struct possible {
	struct net *net;
} RELOCATED possible_net_t;

struct sock_common {
	u32 skc_daddr, skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_family;
	volatile u8 skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
} RELOCATED;

struct sock {
	struct sock_common __sk_common;
	u16 sk_protocol;
	int sk_rx_dst_ifindex;
} RELOCATED;

struct inet_sock {
	struct sock sk;
	u16 inet_sport;
} RELOCATED;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
} RELOCATED;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u64 bytes_received;
	u32 data_segs_in;
} RELOCATED;

struct bpf_iter_meta {
	void *seq;
} RELOCATED;

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
} RELOCATED;
