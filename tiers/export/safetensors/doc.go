// Package safetensors writes files in the format of that name, which tools of
// every machine-learning library read, and reads them again.
//
// It owns the layout of the file and its checks. It must not know what tensors
// mean.
//
// The life of a file: NewWriter takes the names, types and shapes of all tensors
// and some text about the file, and writes the header; Write takes the tensors'
// bytes, one tensor behind the other in the order given; Close sees to it that
// nothing is missing. Open reads and checks the header; Tensor gives a reader of
// one tensor's bytes.
//
//	8 B     length of the header, u64 little-endian
//	header  JSON: {"__metadata__": {text: text}, name: {"dtype": "F32",
//	        "shape": [rows, dim], "data_offsets": [begin, end]}, ...}, then
//	        spaces up to a multiple of 64 B of the file
//	data    the tensors, little-endian, row-major, without gaps
//
// The format has no checksums: the manifest beside the file has one.
package safetensors
