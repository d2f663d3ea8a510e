// Package regcache keeps registrations of memory that its users own, so that
// the second transfer from the same buffer does not pay for pinning it again.
//
// It owns the ranges, who leases them, and when a registration is closed. It
// must not know verbs: a registration is anything with a Close.
//
// The life of one transfer's registration:
//
//  1. Get rounds the range to pages and looks for a registration that covers
//     it. A hit costs one lock and one binary search, and allocates nothing.
//  2. On a miss the least recently leased registrations that nobody leases are
//     closed until the new one fits both bounds; then Config.Register is
//     called, without the lock. Others who ask meanwhile for a range inside it
//     wait for that same call and share its outcome. A failure is not kept.
//  3. Registrations that lie inside the new one are not looked up any more,
//     and are closed when their last lease ends.
//  4. The Lease holds the registration open until Release.
//  5. Before memory is unmapped, Invalidate closes what covers any part of it.
//     Nobody does this for the user: memory that is unmapped and mapped anew
//     without Invalidate is reached through the old pages, so transfers would
//     silently move other bytes than the program sees.
//
// Registrations that overlap but do not contain one another live side by side
// and pin their common pages twice, as the kernel counts them. Both bounds
// hold at every moment, closes under way included; where leases alone fill
// them, Get answers with a *FullError and does not wait.
package regcache
