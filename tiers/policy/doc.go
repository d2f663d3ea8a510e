// Package policy chooses which row leaves memory: by what is announced (Belady's
// rule within the window), by S3-FIFO, or by LRU.
//
// It owns the order of the rows in memory, and the window of announced uses. It
// is pure: no clock, no disk, no randomness. It must not know what a row is, nor
// where it goes: rows are numbers of places (frames), keys are only compared.
//
// A Policy belongs to one goroutine. Its memory is a few arrays by frame, and
// bounded tables for what it remembers beyond: Bytes counts all of it.
//
// The life of one row: Add when it comes into a frame, Touch with every lookup
// that finds it there, until Victim gives the frame away, or Remove says that
// the row left by itself. Victim asks whether a frame may go, and passes over
// those that may not.
package policy
