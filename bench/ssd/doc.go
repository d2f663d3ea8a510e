// Package ssd measures a table that is larger than its memory: rows read from
// disk, written blindly, and read, changed and written, beside what the disk
// itself gives and beside a log-structured store of the classic kind (Pebble).
//
// It owns the loads, the sides and the accounting. It must not know flags, nor
// how a tier works: ours is a tiers.Rows, as a server's lane has it.
//
// The life of one run: every side gets the same rows, in the same order. Then,
// operation by operation, the sides take turns: a round is some batches of
// distinct keys, and each side's answers to the same batch are compared by their
// checksum. The limit is the raw device: one block read at a random place of a
// file as large as the table, for every row that had to be read.
package ssd
