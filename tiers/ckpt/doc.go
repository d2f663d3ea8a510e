// Package ckpt is a model as a directory: what a training job writes, and
// evaluation, prediction and the next job read.
//
// It owns the format, its versions, and the promise that a directory holds
// either the old model or the new one, whole. It must not know tables' storage,
// placement, the network or what a model computes: rows come and go through
// callbacks, slots are numbers, the model's description is opaque JSON.
//
//	DIR/MANIFEST.json       names all else, with sizes and SHA-256; nothing is
//	                        valid without it
//	DIR/parts-XXXXXXXX/     part files of the model that the manifest names
//	DIR/.incoming-XXXXXXXX/ a model being written, or what a crash left of one
//	DIR/.lock               held while directories are made, switched, removed
//
// # The life of a model
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
// # Format 1
//
// A part is a header, blocks, and a footer; all numbers little-endian.
//
//	header  64 B  magic "PSRTPART", version u32, kind u32 (1 rows, 2 dense),
//	              table u32, record bytes u32 (rows; 0 dense), flags u32
//	              (1 weights only), zeros, CRC-32C u32 of the 60 bytes before
//	block         payload bytes u32, records u32, CRC-32C u32 of both and of the
//	              payload, payload
//	footer  32 B  magic "PSRT-END", blocks u64, records u64, zero u32, CRC-32C u32
//
// A row's record is its key, u64, and its float32 values: the weights, then,
// unless weights only, the optimizer's state. A dense record is first element
// u64, values u32, state floats u32, values, state.
//
// A format never changes once released: testdata holds a model of each, and
// must open for ever.
package ckpt
