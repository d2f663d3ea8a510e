package ckpt

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"
)

// NextOptions say what a generation is to be.
type NextOptions struct {
	Delta bool // what has changed since Head; otherwise a base
	// WeightsOnly leaves the optimizer's state out, Quantise keeps the weights
	// of rows smaller: generations for serving. What is to be trained further
	// does not follow one of these.
	WeightsOnly bool
	Quantise    string // QuantNone, QuantFP16 or QuantInt8
	// Compress packs blocks, where they shrink. A psrt that does not know
	// format 3 cannot read the generation, nor what follows it.
	Compress string // CompressNone or CompressLZ4
}

// ErrNoBase: a delta was asked for and there is nothing it could follow.
var ErrNoBase = errors.New("there is no base for a delta; write one")

// Next is a generation on its way. It is ended by Commit or Abort.
type Next struct {
	h      *History
	as     Manifest  // what is known of it
	parent *Manifest // a delta's
}

// Begin begins the next generation; one can be under way. A delta whose chain has lost files is
// refused with ErrNoBase.
func (h *History) Begin(ctx context.Context, o NextOptions) (*Next, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.lock == nil:
		return nil, fmt.Errorf("ckpt: the history in %s is closed", h.fs.Path(""))
	case h.next != nil:
		return nil, fmt.Errorf("ckpt: generation %d of %s is under way; commit or abort it first", h.next.as.Number, h.fs.Path(""))
	case o.Delta && h.broken != nil:
		return nil, fmt.Errorf("ckpt: a delta of %s has no parent: %w", h.fs.Path(""), h.broken)
	case o.Delta && h.parent == nil:
		return nil, fmt.Errorf("ckpt: a delta in %s: %w", h.fs.Path(""), ErrNoBase)
	}
	if o.Delta {
		if err := h.intact(ctx); err != nil {
			return nil, err
		}
	}
	var random [8]byte
	rand.Read(random[:])
	n := &Next{h: h}
	n.as = Manifest{Format: FormatHistory, WeightsOnly: o.WeightsOnly || o.Quantise != QuantNone}
	if o.Compress != CompressNone {
		n.as.Format = FormatPacked
	}
	n.as.Generation = generationDir(h.last+1, binary.LittleEndian.Uint64(random[:]))
	n.as.Lineage = Lineage{Number: h.last + 1, Kind: KindBase, Quantise: o.Quantise, Compress: o.Compress, Run: h.run, Time: time.Now().UTC().Format(time.RFC3339Nano)}
	if o.Delta {
		parent := h.parent.Ref()
		n.as.Kind, n.as.Parent, n.as.Run, n.parent = KindDelta, &parent, h.parent.Run, h.parent
		if h.parent.WeightsOnly && !n.as.WeightsOnly {
			return nil, fmt.Errorf("ckpt: generation %d of %s has weights only, and a delta with optimizer state cannot follow it; write a base", parent.Number, h.fs.Path(""))
		}
	}
	h.last++
	h.next = n
	return n, nil
}

// Number is the generation's.
func (n *Next) Number() uint64 { return n.as.Number }

// ticket is what a writer elsewhere needs to know.
type ticket struct {
	Location string   `json:"location"`
	As       Manifest `json:"as"`
}

// Ticket is for WriterFor, in any process that reaches the same location.
func (n *Next) Ticket() string {
	b, err := json.Marshal(ticket{n.h.location, n.as})
	if err != nil {
		panic(err) // strings and numbers only
	}
	return string(b)
}

// Writer is for this process.
func (n *Next) Writer(ctx context.Context) *Writer {
	return &Writer{ctx: ctx, fs: n.h.fs, dir: n.as.Generation, as: n.as}
}

// WriterFor is a Writer for a generation that another process began.
func WriterFor(ctx context.Context, t string) (*Writer, error) {
	var k ticket
	if err := json.Unmarshal([]byte(t), &k); err != nil {
		return nil, fmt.Errorf("ckpt: a ticket %.60q: %w", t, err)
	}
	if !k.As.ofHistory() || k.As.Format > newest {
		return nil, fmt.Errorf("ckpt: a ticket for format %d, this psrt writes %d to %d; use the same psrt everywhere", k.As.Format, FormatHistory, newest)
	}
	if err := k.As.validHistory(); err != nil {
		return nil, fmt.Errorf("ckpt: a ticket for %s: %w", k.Location, err)
	}
	f, err := openFS(ctx, k.Location)
	if err != nil {
		return nil, err
	}
	return &Writer{ctx: ctx, fs: f, dir: k.As.Generation, as: k.As}, nil
}

// IsTicket tells a ticket from a directory's name.
func IsTicket(s string) bool { return len(s) > 0 && s[0] == '{' }

// Commit makes the generation valid: m has the parts and all that the caller
// says of the model, the lineage is filled in. When it returns the manifest,
// the generation is durable and the next delta follows it. When it fails, the
// history is as it was, rows that changed are still to be written, and the
// parts are removed.
func (n *Next) Commit(ctx context.Context, m Manifest) (*Manifest, error) {
	h := n.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next != n {
		return nil, fmt.Errorf("ckpt: generation %d of %s is committed or aborted already", n.as.Number, h.fs.Path(""))
	}
	h.next = nil
	done, err := n.commit(ctx, m)
	if err != nil {
		return nil, err
	}
	h.known[done.Number] = done.outline()
	if !done.WeightsOnly || h.parent != nil && h.parent.WeightsOnly || h.parent == nil {
		if done.Kind == KindBase {
			h.chain = nil
		}
		h.parent, h.chain, h.broken = done, append(h.chain, linkOf(done)), nil
	}
	h.after = errors.Join(writeHead(ctx, h.fs, done.Ref()), h.retire(ctx))
	return done, nil
}

func (n *Next) commit(ctx context.Context, m Manifest) (*Manifest, error) {
	h := n.h
	m.Format, m.Generation, m.WeightsOnly = n.as.Format, n.as.Generation, n.as.WeightsOnly
	merged := m.Merged
	m.Lineage = n.as.Lineage
	m.Merged = merged
	if len(m.Meta) == 0 {
		m.Meta = []byte("null")
	}
	b, err := n.check(ctx, &m)
	if err != nil {
		n.remove(ctx)
		return nil, err
	}
	name := manifestFile(m.Number)
	err = h.fs.Put(ctx, name, b, true)
	if err == nil {
		return parseManifest(h.fs.Path(name), b)
	}
	err = explain("writing", h.fs.Path(name), err)
	if errors.Is(err, fs.ErrExist) {
		n.remove(ctx) // the manifest there is another's
		return nil, fmt.Errorf("%w: another process has committed generation %d; two jobs write to one history", err, m.Number)
	}
	// It may be there nevertheless, and then its parts must be.
	if e := h.fs.Remove(context.WithoutCancel(ctx), name); e != nil {
		return nil, fmt.Errorf("%w; and what was written could not be removed: %v", err, e)
	}
	if e := h.fs.Sync(context.WithoutCancel(ctx), ""); e == nil {
		n.remove(ctx)
	}
	return nil, err
}

// check renders the manifest when all that it names is there and durable.
func (n *Next) check(ctx context.Context, m *Manifest) ([]byte, error) {
	f := n.h.fs
	if err := m.validate(); err != nil {
		return nil, fmt.Errorf("ckpt: this is not a whole generation: %w", err)
	}
	if m.Kind == KindDelta {
		now, err := readManifest(ctx, f, manifestFile(m.Parent.Number))
		if err == nil && now.SHA256 != m.Parent.SHA256 {
			err = corrupt(f.Path(manifestFile(m.Parent.Number)), "its SHA-256 is %s, it was %s", now.SHA256, m.Parent.SHA256)
		}
		if err != nil {
			return nil, fmt.Errorf("ckpt: this delta has lost generation %d, which it follows: %w; write a base", m.Parent.Number, err)
		}
		if err := m.follows(n.parent); err != nil {
			return nil, fmt.Errorf("ckpt: this delta cannot follow generation %d: %w; write a base", m.Parent.Number, err)
		}
	}
	if len(m.Parts) > 0 {
		list, err := f.List(ctx, m.Generation)
		if err != nil {
			return nil, explain("listing", f.Path(m.Generation), err)
		}
		size := map[string]int64{}
		for _, e := range list {
			size[e.Name] = e.Bytes
		}
		there := func(file string, bytes int64) error {
			name := f.Path(path.Join(m.Generation, file))
			if got, ok := size[file]; !ok {
				return explain("looking for", name, fs.ErrNotExist)
			} else if got != bytes {
				return fmt.Errorf("ckpt: %s has %d bytes, its writer reported %d; is %s the same place on every machine?", name, got, bytes, f.Path(""))
			}
			return nil
		}
		for _, p := range m.Parts {
			if err := there(p.File, p.Bytes); err != nil {
				return nil, err
			}
		}
		for _, b := range m.Beside {
			if err := there(b.File, b.Bytes); err != nil {
				return nil, err
			}
		}
		if err := f.Sync(ctx, m.Generation); err != nil {
			return nil, explain("syncing", f.Path(m.Generation), err)
		}
	}
	return m.render()
}

// remove removes the parts; what stays is removed when the history is opened
// the next time.
func (n *Next) remove(ctx context.Context) {
	_ = n.h.fs.Remove(context.WithoutCancel(ctx), n.as.Generation)
}

// Abort removes what was written. It does nothing after Commit.
func (n *Next) Abort() error {
	h := n.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next != n {
		return nil
	}
	h.next = nil
	if err := h.fs.Remove(context.Background(), n.as.Generation); err != nil {
		return explain("removing", h.fs.Path(n.as.Generation), err)
	}
	return nil
}
