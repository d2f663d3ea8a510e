package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestFrames(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	if err := w.WriteJSON(KindRun, Command{Args: []string{"a", "b c"}, Dir: "/d", Env: []string{"X=y"}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(KindQuit, nil); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("0123456789abcdef", 3*outputChunk/16) + "end"
	if n, err := io.WriteString(w.Output(KindStderr), long); n != len(long) || err != nil {
		t.Fatal(n, err)
	}
	kind, payload, err := Read(&b)
	var c Command
	if err != nil || kind != KindRun || Decode(payload, &c) != nil || len(c.Args) != 2 || c.Args[1] != "b c" || c.Dir != "/d" || c.Env[0] != "X=y" {
		t.Errorf("read %q %q %v", kind, payload, err)
	}
	if kind, payload, err := Read(&b); kind != KindQuit || len(payload) != 0 || err != nil {
		t.Errorf("read %q %q %v, want an empty quit", kind, payload, err)
	}
	var got strings.Builder
	for {
		kind, payload, err := Read(&b)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || kind != KindStderr || len(payload) > outputChunk {
			t.Fatalf("read %q with %d bytes, %v", kind, len(payload), err)
		}
		got.Write(payload)
	}
	if got.String() != long {
		t.Errorf("%d bytes of output came back changed or as %d", len(long), got.Len())
	}
	if err := w.Write(KindStdout, make([]byte, MaxPayload+1)); err == nil {
		t.Error("a frame above the limit was written")
	}
}

func TestReadRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"half a header":  "1\x01",
		"half a payload": "1\x04\x00\x00\x00ab",
		"no payload":     "1\x04\x00\x00\x00",
		"too long":       "1\x00\x00\x00\x7f",
	} {
		if _, _, err := Read(strings.NewReader(in)); err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v, want an error that is not the stream's end", name, err)
		}
	}
	if err := Decode([]byte("{"), &Hello{}); err == nil {
		t.Error("half a message was accepted")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("1\x02\x00\x00\x00ab"))
	f.Add([]byte("q\x00\x00\x00\x00"))
	f.Add([]byte("r\x0d\x00\x00\x00{\"args\":[\"a\"]}"))
	f.Add([]byte("x\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		kind, payload, err := Read(bytes.NewReader(in))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := NewWriter(&again).Write(kind, payload); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(in, again.Bytes()) {
			t.Errorf("%q was read as what is written %q", in, again.Bytes())
		}
	})
}
