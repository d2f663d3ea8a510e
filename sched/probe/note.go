package probe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// point is a USDT point of a program's file, as its note tells.
type point struct {
	provider, name, arguments string
	offset, semaphore         uint64 // in the file
}

// errNoPoints says that a file is no ELF file of ours, or has no points.
var errNoPoints = errors.New("no USDT points")

// pointsOf reads the points of a program or library.
func pointsOf(file io.ReaderAt) ([]point, error) {
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, errors.Join(errNoPoints, err)
	}
	section := f.Section(".note.stapsdt")
	if section == nil || f.Machine != elf.EM_X86_64 {
		return nil, errNoPoints
	}
	const most = 1 << 20
	if section.Size > most {
		return nil, fmt.Errorf("%d bytes of USDT notes; at most %d are read", section.Size, most)
	}
	b, err := section.Data()
	if err != nil {
		return nil, err
	}
	var base uint64
	if s := f.Section(".stapsdt.base"); s != nil {
		base = s.Addr
	}
	return decodeNotes(b, base, func(address uint64) (uint64, bool) {
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && address >= p.Vaddr && address-p.Vaddr < p.Filesz {
				return address - p.Vaddr + p.Off, true
			}
		}
		return 0, false
	})
}

// decodeNotes takes notes apart. base is where .stapsdt.base is now: what the
// file was moved by since the notes were written, they do not know. offset
// finds an address in the file.
func decodeNotes(b []byte, base uint64, offset func(uint64) (uint64, bool)) ([]point, error) {
	le := binary.LittleEndian
	var points []point
	for len(b) > 0 {
		if len(b) < 12 {
			return nil, fmt.Errorf("a note's head has %d bytes, want 12", len(b))
		}
		nameBytes, bodyBytes, kind := le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:])
		b = b[12:]
		owner, rest, ok := cutPadded(b, nameBytes)
		if !ok {
			return nil, fmt.Errorf("a note's name has %d bytes, %d are left", nameBytes, len(b))
		}
		body, rest, ok := cutPadded(rest, bodyBytes)
		if !ok {
			return nil, fmt.Errorf("a note has %d bytes, fewer are left", bodyBytes)
		}
		b = rest
		if kind != 3 || string(owner) != "stapsdt\x00" {
			continue
		}
		p, err := decodePoint(body, base, offset)
		if err != nil {
			return nil, err
		}
		points = append(points, p)
	}
	return points, nil
}

func decodePoint(b []byte, base uint64, offset func(uint64) (uint64, bool)) (point, error) {
	if len(b) < 24 {
		return point{}, fmt.Errorf("a point's note has %d bytes, want 24 and three texts", len(b))
	}
	le := binary.LittleEndian
	at, was, semaphore := le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:])
	texts := bytes.SplitN(b[24:], []byte{0}, 4)
	if len(texts) != 4 {
		return point{}, fmt.Errorf("a point's note has %d texts, want 3", len(texts)-1)
	}
	p := point{provider: string(texts[0]), name: string(texts[1]), arguments: string(texts[2])}
	var ok bool
	if p.offset, ok = offset(at + base - was); !ok {
		return p, fmt.Errorf("point %s:%s lies at %#x, outside the file's segments", p.provider, p.name, at)
	}
	if semaphore != 0 {
		if p.semaphore, ok = offset(semaphore + base - was); !ok {
			return p, fmt.Errorf("the semaphore of point %s:%s lies at %#x, outside the file's segments", p.provider, p.name, semaphore)
		}
	}
	return p, nil
}

// cutPadded takes n bytes, and those up to the next multiple of 4.
func cutPadded(b []byte, n uint32) (head, rest []byte, ok bool) {
	if uint64(n) > uint64(len(b)) {
		return nil, nil, false
	}
	return b[:n], b[min(uint64(len(b)), (uint64(n)+3)&^3):], true
}
