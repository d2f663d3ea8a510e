// Package audit records what a training job asked and was answered, so that it can
// be decided afterwards (package judge) whether its servers kept the promise of
// its consistency mode. docs/audit.md is the format and what follows from it.
//
// It owns the record: which keys are in it, its bytes, and the files. It must not
// know connections, tables or what is right: client and server tell it what
// happens, and judge reads it.
//
// # The life of a push
//
//	worker  Send   before it is posted: sequence, clock, gradients of sampled keys
//	lane    Take   before it is acknowledged: it is in this version of the table
//	worker  Done   what the lane answered
//
// and of a pull: Ask before it is posted, Seen for each lane that has answered,
// with the version that it names and hashes of the sampled values.
//
// # What it costs
//
// One multiplication for each key, some bytes for each sampled one, and no system
// call: files are mapped, and the next piece of one is made ready by a goroutine
// of its own. What was recorded outlives a process that is killed.
//
// # Bounds
//
// A file ends at its limit, or where its disk has no room, with a record that says
// so; the job goes on. A record is at most MaxRecord bytes.
//
// Methods of a nil *Worker or *Lane do nothing. Each belongs to one goroutine.
package audit
