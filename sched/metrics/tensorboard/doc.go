// Package tensorboard writes event files that TensorBoard reads: scalars by tag, step
// and time.
//
// It owns the record format and the three protocol buffer messages that scalars need.
// It must not know what is trained.
//
// # The format
//
//	record:   length uint64, masked CRC-32C of it, data, masked CRC-32C of the data,
//	          all little-endian; masked: rotated right by 15 bits, plus 0xa282ead8
//	Event:    1 wall_time double, 2 step int64, 3 file_version string, 5 summary Summary
//	Summary:  1 value Value, repeated
//	Value:    1 tag string, 2 simple_value float
//
// # The life of a scalar
//
// Write encodes one Event with all scalars of a step and appends it as one record, in
// one write: who reads the file meanwhile sees whole records.
package tensorboard
