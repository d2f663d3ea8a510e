package outdir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// ManifestName is the file that makes a directory an export.
const ManifestName = "EXPORT.json"

// maxManifest bounds what Open reads: thousands of tables stay far below.
const maxManifest = 64 << 20

// Manifest says what an export is.
type Manifest struct {
	Kind    string          `json:"export"` // of the files
	Format  int             `json:"format"` // version of the kind
	Content json.RawMessage `json:"content"`
	Files   []FileInfo      `json:"files"`
}

// FileInfo describes a file.
type FileInfo struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

const (
	head = "{\n\"sha256\": \""
	mid  = "\",\n\"manifest\": "
	tail = "\n}\n"
)

// render is the file: JSON, and checked to the last bit.
func (m *Manifest) render() ([]byte, error) {
	body, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, fmt.Errorf("export: manifest: %w", err)
	}
	sum := sha256.Sum256(body)
	return []byte(head + hex.EncodeToString(sum[:]) + mid + string(body) + tail), nil
}

// parseManifest reads what render wrote; path is for errors.
func parseManifest(path string, b []byte) (*Manifest, error) {
	sum := len(head) + 2*sha256.Size
	if len(b) < sum+len(mid)+len(tail) || !bytes.HasPrefix(b, []byte(head)) ||
		!bytes.HasPrefix(b[sum:], []byte(mid)) || !bytes.HasSuffix(b, []byte(tail)) {
		return nil, Corrupt(path, "it is not a manifest that psrt export wrote")
	}
	body := b[sum+len(mid) : len(b)-len(tail)]
	if got := sha256.Sum256(body); hex.EncodeToString(got[:]) != string(b[len(head):sum]) {
		return nil, Corrupt(path, "its SHA-256 is not the one it states")
	}
	var m Manifest
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, Corrupt(path, "%v", err)
	}
	seen := map[string]bool{ManifestName: true}
	for _, f := range m.Files {
		if !validName(f.Name) || seen[f.Name] || f.Bytes < 0 || len(f.SHA256) != 2*sha256.Size {
			return nil, Corrupt(path, "it names a file %q of %d bytes, SHA-256 %q", f.Name, f.Bytes, f.SHA256)
		}
		seen[f.Name] = true
	}
	return &m, nil
}

// validName keeps names inside their directory, and visible.
func validName(s string) bool {
	if s == "" || len(s) > 200 || s[0] == '.' || s[0] == '-' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}
