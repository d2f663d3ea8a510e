// Package qualify tells an operator whether a set of ranks is fit for a job:
// which of them reach each other, how fast every pair is, what all of them
// reach together, and which pair, rank or host is slower than its like.
//
// It owns the schedule of pairs, the judgement of outliers, and the conversation
// between the director and the ranks. Who a process is, sched/rendezvous knows;
// the measuring itself is bench/micro's, the way to a peer rdma/dial's. It must
// not know flags, nor how a report looks.
//
// The life of one run:
//
//  1. Every rank connects to the director (rank 0, or the process that started
//     all ranks) and says who it is and where it listens.
//  2. The pairs are cut into waves: rounds of a tournament, whose pairs are
//     disjoint, less what one host cannot carry at a time (Waves).
//  3. A duel: the director tells one rank to expect the other, the other to
//     dial it by the same rdma/dial that training uses, to measure latency and
//     writes there, with checksums, and to say what it found. Then the two
//     change sides, so that every ordered pair is tried by itself.
//  4. Pairs that Judge finds slow are measured once more, alone.
//  5. All ranks write to all others at once, for the total.
//  6. Report makes rows, and says what was found.
//
// Everything ends: every step of a duel has a deadline, the director asks every
// rank for a sign of life all the time and goes on without those that are gone
// or silent, and a rank that hears nothing from the director ends. A rank has
// one registered region and, but for the total, one connection at a time; the
// total has one of little depth to each peer, in that same region.
package qualify
