// Package compress makes what a push carries shorter: gradients as halves or bytes,
// or only the largest of them, and the rest later (error feedback).
//
// It owns the form of such a payload, the choice of rows, and what has not been sent
// yet. It must not know connections, servers or clocks. Its arithmetic is csrc/codec's.
//
// Nothing here depends on how rows are spread over lanes: rows have scales of their own,
// dense values in groups within their block, and rows are chosen by magnitude and key.
// So under bsp a model is the same for any number of servers and any transport; not for
// any number of workers, for each compresses its own sum.
//
// The life of one push: the client asks a Sparse (or Dense) for what is to be sent of
// all rows, packs them lane by lane into registered memory, and keeps that until the
// push is answered: it is sent again as it is. The server opens the payload, which
// checks all lengths, and decodes it into floats; from there on it is a push like any
// other, refusals of what is not finite included. A replica of a group does the same:
// what travels down the chain is the payload.
package compress
