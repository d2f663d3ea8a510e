// Package memlock tells before a registration whether the kernel will let this
// process pin the memory, and afterwards whether the limit was the reason of a
// refusal. It owns the judgement and the sentence that tells the operator what
// to write where. It must not know who registers what.
//
// The life of one question: Check reads RLIMIT_MEMLOCK and what is pinned
// already. If the need goes beyond the soft limit, it raises that to the hard
// one; a refusal to raise is no verdict. If the need still does not fit, it
// tries what only a process above the limit may do: an mlock of as much memory,
// of addresses without pages behind them, so that the trial costs nothing
// whatever its size. If that is refused too, the answer is a *LimitError.
//
// What counts: the kernel compares RLIMIT_MEMLOCK with the sum of the pages
// pinned for RDMA (VmPin in /proc/self/status), and, separately, with the sum
// of those locked by mlock (VmLck). An arena that is locked and registered
// counts once in each, so memory locked by mlock does not reduce what may be
// registered. With CAP_IPC_LOCK neither is compared.
//
// A yes is a snapshot: other registrations of this process may use up the
// limit in between. Explain answers for what was refused all the same.
package memlock
