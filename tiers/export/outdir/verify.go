package outdir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// Verify reads every byte and compares it with the manifest.
func (e *Export) Verify(ctx context.Context) error {
	buf := make([]byte, 1<<20)
	for _, info := range e.Files {
		if err := e.verify(ctx, info, buf); err != nil {
			return err
		}
	}
	return nil
}

// VerifyFile is Verify of one file.
func (e *Export) VerifyFile(ctx context.Context, name string) error {
	for _, info := range e.Files {
		if info.Name == name {
			return e.verify(ctx, info, make([]byte, 1<<20))
		}
	}
	return Corrupt(e.Path(ManifestName), "it does not name %s", name)
}

func (e *Export) verify(ctx context.Context, info FileInfo, buf []byte) error {
	path := e.Path(info.Name)
	f, err := e.Open(info.Name)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, err := f.Read(buf)
		sum.Write(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return Explain("reading", path, err)
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != info.SHA256 {
		return Corrupt(path, "its SHA-256 is %s, the manifest says %s", got, info.SHA256)
	}
	return nil
}
