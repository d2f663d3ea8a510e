package tensorboard

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Event files of TensorFlow begin with these twelve bytes: their first record, which
// has the version, is 24 bytes long.
func TestGolden(t *testing.T) {
	head := appendRecord(nil, make([]byte, 24))[:12]
	if got := hex.EncodeToString(head); got != "1800000000000000a37f4b22" {
		t.Errorf("a record of 24 bytes begins %s, want 1800000000000000a37f4b22", got)
	}
}

// field is one field of a message.
type field struct {
	number uint64
	value  uint64
	bytes  []byte
}

// parse reads a message as protocol buffers are specified, knowing nothing of events.
func parse(t *testing.T, b []byte) (all []field) {
	t.Helper()
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		b = b[n:]
		f := field{number: tag >> 3}
		switch tag & 7 {
		case 0:
			f.value, n = binary.Uvarint(b)
			b = b[n:]
		case 1:
			f.value, b = binary.LittleEndian.Uint64(b), b[8:]
		case 2:
			size, n := binary.Uvarint(b)
			f.bytes, b = b[n:n+int(size)], b[n+int(size):]
		case 5:
			f.value, b = uint64(binary.LittleEndian.Uint32(b)), b[4:]
		default:
			t.Fatalf("wire type %d", tag&7)
		}
		all = append(all, f)
	}
	return all
}

// A file has the version first, then each step's scalars.
func TestFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "one")
	w, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(time.Unix(100, 5e8), 300, Scalar{"auc/valid", .75}, Scalar{"logloss/valid", .5}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if len(names) != 1 {
		t.Fatalf("%d event files", len(names))
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	var records [][]byte
	for len(b) > 0 {
		n := binary.LittleEndian.Uint64(b)
		data := b[12 : 12+n]
		if !bytes.Equal(b[:16+n], appendRecord(nil, data)) {
			t.Fatal("a record's checksum is wrong")
		}
		records, b = append(records, data), b[16+n:]
	}
	if len(records) != 2 {
		t.Fatalf("%d records, want 2", len(records))
	}
	if f := parse(t, records[0]); f[1].number != 3 || string(f[1].bytes) != version {
		t.Errorf("the first record: %+v", f)
	}
	event := parse(t, records[1])
	if event[0].value != 0x4059200000000000 || event[1].value != 300 || event[2].number != 5 { // 100.5
		t.Errorf("the event: %+v", event)
	}
	var got []string
	for _, v := range parse(t, event[2].bytes) {
		value := parse(t, v.bytes)
		got = append(got, string(value[0].bytes))
		if want := map[string]uint64{"auc/valid": 0x3f400000, "logloss/valid": 0x3f000000}[string(value[0].bytes)]; value[1].value != want {
			t.Errorf("%s is %x, want %x", value[0].bytes, value[1].value, want)
		}
	}
	if strings.Join(got, " ") != "auc/valid logloss/valid" {
		t.Errorf("tags %v", got)
	}
}

// A place that cannot be written is refused at once.
func TestCreateFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(file); err == nil {
		t.Error("a file was taken for a directory")
	}
}
