package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Kind says what a frame carries.
type Kind byte

// From the host.
const (
	KindRun    Kind = 'r' // Command
	KindSignal Kind = 's' // one byte: the number of a signal for the running command
	KindQuit   Kind = 'q' // nothing
)

// From the agent.
const (
	KindHello  Kind = 'h' // Hello: the machine is ready, or why it is not
	KindStdout Kind = '1' // bytes
	KindStderr Kind = '2' // bytes
	KindExit   Kind = 'x' // Exit
	KindBye    Kind = 'b' // Traffic
)

// MaxPayload bounds a frame, so that neither side trusts the other's length.
const MaxPayload = 1 << 20

// outputChunk is how many bytes of output a frame carries at most: small
// enough that a signal does not wait long behind it.
const outputChunk = 32 << 10

const headerBytes = 5

// Read reads one frame. At the stream's end between frames it is io.EOF.
func Read(r io.Reader) (Kind, []byte, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(header[1:])
	if n > MaxPayload {
		return 0, nil, fmt.Errorf("lab: a frame of kind %q announces %d bytes, at most %d are allowed", header[0], n, MaxPayload)
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return Kind(header[0]), payload, nil
}

// Writer writes frames; several goroutines may.
type Writer struct {
	mu sync.Mutex // guards w: a frame is written in one piece
	w  io.Writer
}

// NewWriter writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write writes one frame.
func (w *Writer) Write(kind Kind, payload []byte) error {
	if len(payload) > MaxPayload {
		return fmt.Errorf("lab: a frame of %d bytes, at most %d are allowed", len(payload), MaxPayload)
	}
	frame := make([]byte, headerBytes, headerBytes+len(payload))
	frame[0] = byte(kind)
	binary.LittleEndian.PutUint32(frame[1:], uint32(len(payload)))
	frame = append(frame, payload...)
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.w.Write(frame)
	return err
}

// WriteJSON writes one frame with a message in it.
func (w *Writer) WriteJSON(kind Kind, message any) error {
	payload, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return w.Write(kind, payload)
}

// Output is an io.Writer that turns what is written into frames of kind.
func (w *Writer) Output(kind Kind) io.Writer { return &output{w, kind} }

type output struct {
	w    *Writer
	kind Kind
}

func (o *output) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		n := min(len(p)-done, outputChunk)
		if err := o.w.Write(o.kind, p[done:done+n]); err != nil {
			return done, err
		}
		done += n
	}
	return len(p), nil
}
