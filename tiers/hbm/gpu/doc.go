// Package gpu is the Device of tiers/hbm that is a GPU: rows in its memory, worked
// on by the kernels of csrc/ptx.
//
// It owns the arena on the device, the staging between the host and it, and two
// streams: rows are moved in one, as those of coming batches are, and worked on in the
// other. The device is driven by a table of functions (csrc/accel): CUDA's, or that of
// somebody's library. It must not know which rows are there, or why.
//
// The life of a call on an arena: its batch is cut into pieces. For each, the next
// of a few stages is taken, after the work that used it last is over; the list of
// slots is copied into the stage's pinned memory, and the call's stream is given the copy of
// it, the copy of the batch's floats one way or the other, and a kernel; before, that it
// waits for the newest piece of the other stream that names a row of this one. An event is
// recorded, which is the fence. Wait waits for the event, and takes the count of
// what a kernel refused.
//
// A device that fails stays failed: the error of the first call that met it is that
// of every Wait.
package gpu
