// Package inference is a file with the weights of one table, laid out to be
// mapped into memory and read where it lies.
//
// It owns the format, its versions, and reading without trusting: every length
// is checked, every block's checksum before its first use, and a file that is
// cut short or a disk that fails under the mapping is an error, not a signal. It
// must not know where rows come from, how many files make a model, or what it
// computes.
//
// # The life of a lookup
//
// Open (or Map) checks size, header and footer, and maps the file: its time does
// not depend on the size. Gather hashes each key; the hash says in which block the
// row must be, so that key and row come with one read of a disk. Blocks that
// were never used before are announced to the kernel first, all of the call at
// once, so that the disk has many requests instead of one after the other. Then
// each block's checksum is compared, once, and its rows decoded. A file larger
// than memory works: the kernel keeps what is hot. Gather may be called by
// several goroutines; Close only when none is left.
//
// # Format 2
//
// All numbers are little-endian.
//
//	header  4096 B  magic "PSRTINFR", version u32, table ID u32, dim u32,
//	                encoding u32 (1 fp32, 2 fp16, 3 int8), exact u32,
//	                row bytes u32, block bytes u32, capacity u32 (rows a block
//	                can hold), homes u64, digest of the rows 32 B, zeros,
//	                CRC-32C u32 of the 4092 bytes before
//	blocks          block bytes each, see below
//	footer    64 B  magic "PSRT-END", blocks u64, rows u64, zeros, CRC-32C u32
//	                of the 60 bytes before
//
//	block    0 B  CRC-32C u32 of the block's number as u64 and of the rest of
//	              the block from byte 4 on
//	         4 B  rows u32
//	         8 B  flags u32: bit 0, rows that belong here or before lie in the
//	              next block
//	        12 B  the first 4 bytes of the digest
//	        16 B  hashes u64 x capacity, ascending
//	         then zeros up to a multiple of 64 B, and rows x capacity
//
// A row is encoded as package quant says; rows lie behind one another, and are
// aligned to 4 bytes, the first of a block to 64: padding every row to a cache
// line would nearly double the file of a table of 17 floats a row.
//
// hash(key) is SplitMix64's finisher of key + 0x9e3779b97f4a7c15, which can be
// inverted, so hashes stand for keys. A row's home is the block number (hash x
// homes) >> 64. Rows are stored in the order of their hashes over the whole
// file, each as near to its home as that allows, never before it. Homes are
// filled to 7/8 on average, so that about one lookup in twelve goes on to a
// second block. Equal tables give equal files.
//
// Block bytes is the smallest power of two from 4096 on that holds 32 rows, at
// most 65536 unless 4 rows need more: one read of a disk brings one block.
//
// The digest is the sum that package table describes, over the keys and the encoded
// rows. An export's manifest has it, too: a file of another table is refused when it
// is opened, and a block of another table's file when it is first used. Format 1 has
// zeros for both; whoever maps such a file compares its SHA-256 first.
//
// A format never changes once released: testdata holds a file of each, and must
// open for ever.
package inference
