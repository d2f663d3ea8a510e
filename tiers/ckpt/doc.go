// Package ckpt is a model in files: what a training job writes, and
// evaluation, prediction, export and the next job read.
//
// It owns the formats, their versions, and two promises: a directory of format
// 1 holds either the old model or the new one, whole; a history, whose generations
// are of format 2 or, where blocks are packed, 3, holds every one whose commit was
// acknowledged, whole. It must not know
// tables' storage, placement, the network or what a model computes: rows come
// and go through callbacks, slots are numbers, the model's description, the
// job's position and tables' lifecycles are opaque words.
//
// docs/model-format.md has both formats byte by byte. Files lie in a
// files.FS: a directory, or an object store (package s3).
//
// # The life of a model (format 1)
//
//	one process           Begin(dir)            makes .incoming-X
//	every server process  NewWriter(incoming)   one part per lane and table,
//	                      .Rows, .Dense         each ending in a Part
//	one process           Commit(manifest)      checks that the parts cover every
//	                                            slot and element once, syncs,
//	                                            renames .incoming-X to parts-X,
//	                                            replaces the manifest by rename,
//	                                            removes the old parts
//
// Until the last rename the old model is the model. What a crash leaves is
// removed by the next Begin: a directory that the manifest does not name and
// whose LOCK nobody holds.
//
// # The life of a generation (formats 2 and 3)
//
//	one process           OpenHistory           takes the lock until Close
//	                      History.Begin         a number, a ticket; writes nothing
//	every server process  WriterFor(ticket)     parts under names that no manifest
//	                      .Rows: Add, Delete    has yet; a delta has what changed
//	                      .Dense                and what was deleted
//	one process           Next.Commit           checks coverage, sizes, that the
//	                                            delta fits its parent; syncs; Puts
//	                                            the manifest, which nothing had
//	                                            under its name; then HEAD; then
//	                                            retires this run's chains that are too many
//
// Nothing is ever changed in place, and nothing is renamed but a small file on
// its way into a directory, so an object store serves as well. A delta names its
// parent by number and by the SHA-256 of its manifest, so a delta that is
// removed, exchanged, repeated or brought from elsewhere is noticed by whoever
// opens the chain. HEAD does that for the newest.
//
// A commit that failed leaves the history as it was: rows that have changed are
// still to be written, and the next delta has the same parent. (When the very
// last sync fails the generation may be there nevertheless, and whole. The next
// delta then is a branch beside it, with all that changed since their parent;
// the branch with the higher number is the newer one.)
//
// # Reading a chain
//
// Rows reads generations from the newest to the base, and leaves out what it has
// seen: each row once, as the newest that has it says. It keeps the ids of all
// generations but the base, for the parts that overlap (with one layout: a
// lane's), at 22 bytes an id, within a budget; where they are more it goes over
// the files once for each share of them. So memory is bounded, and loading is
// sequential reading.
//
// # What a crash leaves
//
// Parts without a manifest, or half a manifest under a temporary name: OpenHistory
// removes them. It removes nothing where something that was committed is missing
// or damaged; such a history takes a new base, and no delta, until Resume names
// a generation that is whole.
//
// A format never changes once released: testdata holds models of each, which
// must open for ever.
package ckpt
