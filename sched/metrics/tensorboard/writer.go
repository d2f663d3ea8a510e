package tensorboard

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"
)

// Scalar is a figure with its name, such as "auc/valid".
type Scalar struct {
	Tag   string
	Value float64
}

// Writer appends to one event file. One goroutine uses it.
type Writer struct {
	file *os.File
	buf  []byte
}

// version is what the first record of a file says.
const version = "brain.Event:2"

// Create makes the directory and a new event file in it.
func Create(dir string) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	now := time.Now()
	name := fmt.Sprintf("events.out.tfevents.%d.%s.%d", now.Unix(), host, os.Getpid())
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	w := &Writer{file: f}
	event := appendDouble(nil, 1, seconds(now))
	if err := w.record(appendBytes(event, 3, []byte(version))); err != nil {
		_ = f.Close() // the error that matters is err
		return nil, err
	}
	return w, nil
}

// Write notes scalars at a step.
func (w *Writer) Write(at time.Time, step int64, scalars ...Scalar) error {
	var summary []byte
	for _, s := range scalars {
		value := appendBytes(nil, 1, []byte(s.Tag))
		value = binary.AppendUvarint(value, 2<<3|wireFixed32)
		value = binary.LittleEndian.AppendUint32(value, math.Float32bits(float32(s.Value)))
		summary = appendBytes(summary, 1, value)
	}
	event := appendDouble(nil, 1, seconds(at))
	event = binary.AppendUvarint(event, 2<<3|wireVarint)
	event = binary.AppendUvarint(event, uint64(step))
	return w.record(appendBytes(event, 5, summary))
}

// Close ends the file.
func (w *Writer) Close() error { return w.file.Close() }

func (w *Writer) record(data []byte) error {
	w.buf = appendRecord(w.buf[:0], data)
	if _, err := w.file.Write(w.buf); err != nil {
		return fmt.Errorf("tensorboard: %w", err)
	}
	return nil
}

func appendRecord(to, data []byte) []byte {
	start := len(to)
	to = binary.LittleEndian.AppendUint64(to, uint64(len(data)))
	to = binary.LittleEndian.AppendUint32(to, masked(to[start:]))
	to = append(to, data...)
	return binary.LittleEndian.AppendUint32(to, masked(data))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the checksum of data as records have it.
func masked(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// Wire types of protocol buffers.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

func appendBytes(to []byte, field uint64, b []byte) []byte {
	to = binary.AppendUvarint(to, field<<3|wireBytes)
	to = binary.AppendUvarint(to, uint64(len(b)))
	return append(to, b...)
}

func appendDouble(to []byte, field uint64, x float64) []byte {
	to = binary.AppendUvarint(to, field<<3|wireFixed64)
	return binary.LittleEndian.AppendUint64(to, math.Float64bits(x))
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
