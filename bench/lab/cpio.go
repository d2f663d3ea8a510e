package lab

import (
	"bytes"
	"fmt"
	"io"
)

// archive writes the kernel's initial file system: cpio in the "newc" form, of
// which the kernel's documentation (driver-api/early-userspace/buffer-format)
// demands fields of 8 hexadecimal digits, and names and contents padded to 4
// bytes. Not compressed: unpacking costs an emulated processor more than copying.
type archive struct {
	w     io.Writer
	inode int
}

const (
	modeDir    = 0o040755
	modeFile   = 0o100644
	modeScript = 0o100755
	modeChar   = 0o020600
)

func (a *archive) dir(name string) error               { return a.entry(name, modeDir, 0, 0, nil) }
func (a *archive) file(name string, data []byte) error { return a.entry(name, modeFile, 0, 0, data) }
func (a *archive) program(name string, data []byte) error {
	return a.entry(name, modeScript, 0, 0, data)
}
func (a *archive) charDevice(name string, major, minor int) error {
	return a.entry(name, modeChar, major, minor, nil)
}
func (a *archive) close() error { return a.entry("TRAILER!!!", 0, 0, 0, nil) }

func (a *archive) entry(name string, mode, major, minor int, data []byte) error {
	if int64(len(data)) > 1<<32-1 {
		return fmt.Errorf("lab: %s has %d bytes, a cpio archive holds files of less than 4 GiB", name, len(data))
	}
	a.inode++
	var b bytes.Buffer
	// magic, inode, mode, uid, gid, links, mtime, size, device (2), device of
	// the node (2), length of the name with its final zero, checksum
	fmt.Fprintf(&b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.inode, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name)+1, 0)
	b.WriteString(name)
	b.WriteByte(0)
	pad(&b)
	b.Write(data)
	pad(&b)
	_, err := a.w.Write(b.Bytes())
	return err
}

func pad(b *bytes.Buffer) {
	for b.Len()%4 != 0 {
		b.WriteByte(0)
	}
}
