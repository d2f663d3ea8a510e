package ckpt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// Verify reads every byte of the model, of all generations that it descends
// from, and compares it with the manifests: checksums of blocks, counts, and
// the SHA-256 of each file; and what lies beside its own generation's parts.
func (m *Model) Verify(ctx context.Context, workers int) error {
	if err := m.each(ctx, workers, everyPart, verifyPart); err != nil {
		return err
	}
	for _, b := range m.Beside {
		if _, err := m.ReadBeside(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func verifyPart(ctx context.Context, r *partReader) error {
	if r.part.Blocks != "" { // reading compares the others' SHA-256
		sum := sha256.New()
		if err := hashFile(ctx, r, sum); err != nil {
			return err
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != r.part.SHA256 {
			return corrupt(r.path, "its SHA-256 is %s, the manifest says %s", got, r.part.SHA256)
		}
	}
	if r.part.Dense {
		return r.dense(ctx, r.m.denseSpec(r.part.Table).Elements, func(int64, []float32, []float32) error { return nil })
	}
	return r.rows(ctx, func([]byte, int, bool) error { return nil })
}

func hashFile(ctx context.Context, r *partReader, sum io.Writer) error {
	whole := newReadAhead(r.f, 0, r.part.Bytes)
	defer whole.stop()
	buf := make([]byte, blockBytes)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := whole.Read(buf)
		sum.Write(buf[:n])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return explain("reading", r.path, err)
		}
	}
}
