// Package ahead shows what looking ahead is worth: training with a part of the
// rows in memory and the others on disk, beside what the same machine does
// without a disk and what the disk does without training, and the reads of each
// policy beside those that a simulator predicts.
//
// It owns the generated data, the two jobs and the replay. It must not know how
// rows lie on disks (tiers) nor what the simulators do (bench/belady).
//
// The life of one run: data are drawn; a small job records what its lane looks up,
// and each policy runs over that trace, as a table and as a simulator. Then a large
// one runs all in memory, and with a part of its memory, in turns with random reads of
// the disk: its speed is held against the lower of what memory and disk allow.
package ahead
