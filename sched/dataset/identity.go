package dataset

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"
)

// Identity tells a file from another one under its name. Size and Sample are of its content;
// MTime and Inode differ between copies, and only save a look at the content.
type Identity struct {
	Path  string `json:"path"`
	Size  int64  `json:"size"`
	MTime int64  `json:"mtime_ns,omitempty"` // since 1970
	Inode uint64 `json:"inode,omitempty"`
	// Sample is a digest of the file's first and last bytes and of blocks between, of a
	// small file of all of it; "": it was not taken.
	Sample string `json:"sample,omitempty"`
}

// What a sample is of: files of up to sampleWhole bytes are read whole.
const (
	sampleWhole  = 256 << 10
	sampleEnds   = 64 << 10
	sampleBlock  = 4 << 10
	sampleBlocks = 32
	sampleBytes  = 16 // of the SHA-256
)

// Identify looks at a file.
func Identify(path string) (Identity, error) {
	f, err := openFile(path)
	if err != nil {
		return Identity{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Identity{}, fileError(path, err, "cannot be read: %v", plain(err))
	}
	id := Identity{Path: path, Size: info.Size(), MTime: info.ModTime().UnixNano(), Inode: inodeOf(info)}
	if id.Sample, err = sample(f, id.Size); err != nil {
		return id, fileError(path, err, "cannot be read: %v", plain(err))
	}
	return id, nil
}

func inodeOf(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}

// sample digests the first size bytes of a file. Which ones it reads depends on size alone. A
// file that has become shorter meanwhile gives the digest of what there is.
func sample(f io.ReaderAt, size int64) (string, error) {
	h := sha256.New()
	_ = binary.Write(h, binary.LittleEndian, size) // a hash takes all
	block := make([]byte, sampleWhole)
	add := func(from, to int64) error {
		n, err := f.ReadAt(block[:to-from], from)
		h.Write(block[:n])
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	}
	if size <= sampleWhole {
		err := add(0, size)
		return hex.EncodeToString(h.Sum(nil)[:sampleBytes]), err
	}
	err := errors.Join(add(0, sampleEnds), add(size-sampleEnds, size))
	between := size - 2*sampleEnds
	for i := range int64(sampleBlocks) {
		from := sampleEnds + between/sampleBlocks*i
		err = errors.Join(err, add(from, from+sampleBlock))
	}
	return hex.EncodeToString(h.Sum(nil)[:sampleBytes]), err
}

// SameContent reports whether two files have the same content, as far as the samples tell.
func (id *Identity) SameContent(o *Identity) bool { return id.Size == o.Size && id.Sample == o.Sample }

// check looks whether the file is still the one that it was. It reads the content only where
// size, time or inode tell that it may be another one. A file that is gone is none of its
// business.
func (id *Identity) check() error {
	info, err := os.Stat(id.Path)
	if err != nil || info.Size() == id.Size && info.ModTime().UnixNano() == id.MTime && inodeOf(info) == id.Inode {
		return nil
	}
	now, err := Identify(id.Path)
	if err != nil || id.SameContent(&now) {
		return err
	}
	return fileError(id.Path, nil, "has changed while it is read: %s; files must stay as they are until the job has ended: write new rows under a name of their own, and start again", id.Difference(&now))
}

// Difference says in words how the file now differs from id.
func (id *Identity) Difference(now *Identity) string {
	was := fmt.Sprintf("it had %d bytes%s", id.Size, id.when())
	switch {
	case now.Size == id.Size:
		return fmt.Sprintf("%s, and has as many now%s, but other ones", was, now.when())
	case now.Size > id.Size && id.begins(now.Path):
		return fmt.Sprintf("%s, and has %d now%s: %d bytes were added to its end", was, now.Size, now.when(), now.Size-id.Size)
	}
	return fmt.Sprintf("%s, and has %d now%s", was, now.Size, now.when())
}

// begins reports whether the file at path begins with the content of id.
func (id *Identity) begins(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	got, err := sample(f, id.Size)
	return err == nil && got == id.Sample
}

func (id *Identity) when() string {
	if id.MTime == 0 {
		return ""
	}
	return " of " + time.Unix(0, id.MTime).Format("2006-01-02 15:04:05")
}

// compareFiles says in words in which file two lists in reading order differ first, "" for
// none: a file that is gone, one that has come, another order, or another content.
func compareFiles(was, now []Identity) string {
	places := func(list []Identity) map[string]int {
		at := make(map[string]int, len(list))
		for i := range list {
			at[list[i].Path] = i
		}
		return at
	}
	had, has := places(was), places(now)
	for i := range was {
		if _, there := has[was[i].Path]; !there {
			return fmt.Sprintf("%s is not among the files any more: %s", was[i].Path, "it had "+fmt.Sprint(was[i].Size)+" bytes"+was[i].when())
		}
	}
	for i := range now {
		if _, there := had[now[i].Path]; !there {
			return fmt.Sprintf("%s has come to the files: it has %d bytes%s", now[i].Path, now[i].Size, now[i].when())
		}
	}
	if len(was) != len(now) {
		return fmt.Sprintf("they were %d files, and are %d now, some of them named twice", len(was), len(now))
	}
	for i := range was {
		if was[i].Path != now[i].Path {
			return fmt.Sprintf("file %d was %s, and is %s now: they are read in another order", i+1, was[i].Path, now[i].Path)
		}
		if !was[i].SameContent(&now[i]) {
			return fmt.Sprintf("%s has changed: %s", was[i].Path, was[i].Difference(&now[i]))
		}
	}
	return ""
}

// FileSet is the identities of a job's files in a form that travels: of many files it is one
// digest.
type FileSet struct {
	Count  int        `json:"count"`
	Digest string     `json:"digest"` // of all sizes and samples, in reading order
	Files  []Identity `json:"files,omitempty"`
}

// maxListedBytes bounds the names and samples that a FileSet lists.
const maxListedBytes = 256 << 10

// NewFileSet is the set of files in reading order.
func NewFileSet(files []Identity) *FileSet {
	h := sha256.New()
	for i := range files {
		fmt.Fprintf(h, "%d %s\n", files[i].Size, files[i].Sample)
	}
	s := &FileSet{Count: len(files), Digest: hex.EncodeToString(h.Sum(nil)), Files: slices.Clone(files)}
	if b, err := json.Marshal(s.Files); err != nil || len(b) > maxListedBytes {
		s.Files = nil
	}
	return s
}

// Compare says in words how files differ from the set, "" for not at all. nil: nothing is
// known.
func (s *FileSet) Compare(files []Identity) string {
	if s == nil || len(files) == s.Count && NewFileSet(files).Digest == s.Digest {
		return ""
	}
	if s.Files == nil {
		return fmt.Sprintf("they are %d files whose sizes and samples differ from the %d that the job began with; compare them with sha256sum", len(files), s.Count)
	}
	if what := compareFiles(s.Files, files); what != "" {
		return what
	}
	return "they are read in another order"
}

// Identities are those of the source's files, in reading order, as they were when it was
// opened.
func (s *Source) Identities() []Identity {
	all := make([]Identity, len(s.inputs))
	for i, in := range s.inputs {
		all[i] = in.id
	}
	return all
}
