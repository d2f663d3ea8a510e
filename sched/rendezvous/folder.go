package rendezvous

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Folder is one in which the ranks of one host find each other where
// the launcher gives them no address and no secret. Only its user can enter it.
type Folder struct{ Path string }

// Coordinator is where rank 0 listens.
func (m *Folder) Coordinator() string { return "unix:" + filepath.Join(m.Path, "coordinator") }

// Listen is where a rank does.
func (m *Folder) Listen(rank int) string {
	return "unix:" + filepath.Join(m.Path, "rank-"+strconv.Itoa(rank))
}

// Close removes the folder; any rank may when all is over.
func (m *Folder) Close() error { return os.RemoveAll(m.Path) }

// OpenFolder gives the folder of the job with this key, and its token. Rank 0 makes
// both, the others wait for them.
func OpenFolder(ctx context.Context, parent, key string, rank int, patience time.Duration) (*Folder, []byte, error) {
	sum := sha256.Sum256([]byte(key))
	m := &Folder{filepath.Join(parent, fmt.Sprintf("psrt-meet-%d-%x", os.Getuid(), sum[:8]))}
	if rank == 0 {
		token, err := m.open()
		if err != nil {
			return nil, nil, fmt.Errorf("rendezvous: no folder for the ranks of this host to meet in: %w; set TMPDIR, or give --coordinator and --token-file", err)
		}
		return m, token, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		token, err := m.token()
		if err == nil {
			return m, token, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("rendezvous: rank %d found no rank 0 on this host within %v: %w; give every rank --coordinator and --token-file", rank, patience, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// open makes the folder anew and puts a token in.
func (m *Folder) open() ([]byte, error) {
	if err := os.Mkdir(m.Path, 0o700); errors.Is(err, os.ErrExist) {
		if err = m.ours(); err != nil {
			return nil, err
		}
		if err = os.RemoveAll(m.Path); err != nil {
			return nil, err
		}
		if err = os.Mkdir(m.Path, 0o700); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	token := NewToken()
	draft := filepath.Join(m.Path, "draft")
	if err := os.WriteFile(draft, token, 0o600); err != nil {
		return nil, err
	}
	return token, os.Rename(draft, filepath.Join(m.Path, "token"))
}

// token reads what rank 0 has put there.
func (m *Folder) token() ([]byte, error) {
	if err := m.ours(); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(m.Path, "token"))
}

// ours says whether nobody else can have put anything there.
func (m *Folder) ours() error {
	info, err := os.Lstat(m.Path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(st.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a folder of this user's alone", m.Path)
	}
	return nil
}
