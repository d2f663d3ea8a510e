package train

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"psrt/sched/dataset"
)

// streamLogVersion is that of the file's lines.
const streamLogVersion = 1

// StreamHead is the first line of a stream's log: how its files are read, found out
// from the first of them.
type StreamHead struct {
	Version   int             `json:"version"`
	Reading   dataset.Options `json:"reading"`
	MeanLabel float64         `json:"mean_label"`
}

// StreamLog is the file that says what a stream consists of: a line for each entry, on
// the disk before anyone reads what it names. A job that goes on from a checkpoint
// takes up the same files in the same order, with passes that end where they ended.
//
// Faults survived: the end of the process or the machine at any moment. A line that is
// not whole was told to nobody, and is cut off.
type StreamLog struct {
	path string
	f    *os.File
}

// ReadStreamHead is the first line of a log; os.ErrNotExist where there is none.
func ReadStreamHead(path string) (*StreamHead, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	head, _, _, err := parseStreamLog(path, b)
	if err == nil && head == nil {
		err = os.ErrNotExist
	}
	return head, err
}

// OpenStreamLog opens a log to write on, with what it has if the job goes on.
func OpenStreamLog(path string, goesOn bool, head StreamHead) (*StreamLog, []dataset.Entry, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, &InputError{fmt.Errorf("train: the log of the stream: %w; give another --stream-log", err)}
	}
	l := &StreamLog{path: path, f: f}
	head.Version = streamLogVersion
	var entries []dataset.Entry
	var had *StreamHead
	whole := 0
	if goesOn {
		b, err := io.ReadAll(f)
		if err == nil {
			had, entries, whole, err = parseStreamLog(path, b)
		}
		if err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
	}
	if err := f.Truncate(int64(whole)); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	if _, err := f.Seek(int64(whole), io.SeekStart); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	if had == nil {
		if err := l.add(head); err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
		if err := syncDir(filepath.Dir(path)); err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
	}
	return l, entries, nil
}

// keepStreamLog renames the log of another run, in which this one begins anew, to PATH.N with the
// lowest N that is free: that run's checkpoints refer to it.
func keepStreamLog(path string) error {
	if st, err := os.Stat(path); err != nil || st.Size() == 0 {
		return nil // OpenStreamLog explains what is wrong
	}
	for n := 1; ; n++ {
		kept := fmt.Sprintf("%s.%d", path, n)
		if _, err := os.Lstat(kept); err == nil {
			continue
		}
		if err := os.Rename(path, kept); err != nil {
			return &InputError{fmt.Errorf("train: keeping the log of the stream that was read before: %w; give another --stream-log", err)}
		}
		return syncDir(filepath.Dir(path))
	}
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// parseStreamLog reads lines; whole is the bytes of those that are.
func parseStreamLog(path string, b []byte) (head *StreamHead, entries []dataset.Entry, whole int, err error) {
	in := bufio.NewReader(bytes.NewReader(b))
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return head, entries, whole, nil
		}
		if n == 1 {
			head = new(StreamHead)
			if err := json.Unmarshal(line, head); err != nil || head.Version != streamLogVersion {
				return nil, nil, 0, &InputError{fmt.Errorf("train: %s begins with %.60q: it is no log of a stream, or one of another version of psrt; give another --stream-log", path, line)}
			}
		} else {
			var e dataset.Entry
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, nil, 0, &InputError{fmt.Errorf("train: %s:%d is damaged (%.60q): go on with a copy, or begin anew without --resume", path, n, line)}
			}
			entries = append(entries, e)
		}
		whole += len(line)
	}
}

// add writes a line, to the disk.
func (l *StreamLog) add(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err = l.f.Write(append(b, '\n')); err == nil {
		err = l.f.Sync()
	}
	if err != nil {
		return fmt.Errorf("train: the log of the stream: %w", err)
	}
	return nil
}

// dropLast cuts off the last line, which is v's.
func (l *StreamLog) dropLast(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	end, err := l.f.Seek(-int64(len(b)+1), io.SeekEnd)
	if err == nil {
		err = l.f.Truncate(end)
	}
	if err == nil {
		err = l.f.Sync()
	}
	return err
}

// Close closes the file.
func (l *StreamLog) Close() error { return l.f.Close() }
