// Package ssd measures a table that is larger than its memory: rows read from
// disk, written blindly, and read, changed and written, beside what the disk
// itself gives and beside log-structured stores of the classic kind (Pebble, and
// RocksDB by its own program).
//
// It owns the loads, the sides and the accounting. It must not know flags, nor
// how a tier works: ours is a tiers.Rows for each lane, as a server has them.
//
// The life of one run: every side gets the same rows. Ours is overwritten with
// what it has, so that its compaction is at work from then on. Operation by
// operation the sides take turns: a round is some batches of distinct keys, and
// each side's answers to the same batch are compared by their checksum. The
// limit of reads is the raw device in the same round: single blocks at random
// places of a file as large as the table, by a bare ring of ours and by fio.
// Blind writes each side makes alone for a while, and what counts is all of its
// time until it has merged what it put off. Then the bytes that reached the disk, compaction's
// included, are held against the rows', and so is the room that they take. At
// last several devices, each limited, are held against one of them.
package ssd
