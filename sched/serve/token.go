package serve

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const (
	minToken = 16      // bytes
	maxToken = 1 << 16 // bytes
)

// Token reads the secret in a file, and makes file and secret where there is
// none: 64 hexadecimal digits that only the owner can read.
func Token(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		var secret [32]byte
		rand.Read(secret[:])
		text := []byte(hex.EncodeToString(secret[:]) + "\n")
		_, err = f.Write(text)
		if err = errors.Join(err, f.Close()); err != nil {
			os.Remove(path)
			return nil, &InputError{Path: "--token-file " + path, Msg: err.Error()}
		}
		return text, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return nil, &InputError{Path: "--token-file " + path, Msg: fmt.Sprintf("cannot be made: %v", plain(err))}
	}
	b, err := os.ReadFile(path)
	switch {
	case err != nil:
		return nil, &InputError{Path: "--token-file " + path, Msg: fmt.Sprintf("cannot be read: %v", plain(err))}
	case len(b) < minToken || len(b) > maxToken:
		return nil, &InputError{Path: "--token-file " + path, Msg: fmt.Sprintf("%d bytes, want %d to %d: head -c 32 /dev/urandom makes one", len(b), minToken, maxToken)}
	}
	return b, nil
}
