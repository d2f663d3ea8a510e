// Package dense keeps fixed ranges of dense parameters (the layers of a model)
// with their optimizer state and a version.
//
// It owns a block's arithmetic and publication. It must not know which layer a
// block belongs to, who pushes, or how blocks are spread over servers.
//
// A block is three pieces of one arena: two published buffers of its values,
// and the working row (values and optimizer state) that the kernels update.
//
// The life of one update: the owner calls Apply, which updates the working row
// in place, copies its values into the buffer that is not published, and
// publishes that buffer by one atomic store together with the next version.
// Readers of other goroutines call Read: they announce themselves at the
// published buffer and copy it. Apply does not write a buffer with readers in
// it; it waits for them, which is for one copy at the most, because newer
// readers go to the other buffer. So no reader sees half of an update.
package dense
