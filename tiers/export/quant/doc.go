// Package quant stores the weights of a row in fewer bytes: as they are, as half
// floats, or as 8-bit integers, the last two with one scale for each row.
//
// It owns the three encodings and their arithmetic, which is the same on every
// machine, bit by bit. It must not know files, keys, or what the weights mean.
//
// The life of one row: a Layout says how many bytes it takes; Encode writes it
// there, refusing values that are not finite unless they are kept as they are;
// Decode gives the weights back.
//
//	exact   float32 x Exact      leading weights that are kept as they are
//	scale   float32              not in F32, nor when all weights are exact
//	values  f32, f16 or int8     for the other weights
//	zeros                        up to a multiple of 4 bytes
//
// All is little-endian. A weight is value x scale. The scale of F16 is the power
// of two that moves the row's largest weight just below 2^15, so that 11 bits
// of precision are left for weights down to 2^-29 of it: half floats by
// themselves would lose small embeddings. The scale of I8 is the largest weight
// / 127.
//
// Exact exists because a row often begins with a linear term, a hundred times
// larger than the embedding behind it, which would leave the latter no bits.
package quant
