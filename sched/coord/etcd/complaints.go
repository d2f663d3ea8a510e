package etcd

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"go.uber.org/zap/zapcore"
)

// complaints passes on why etcd ends the process: it does so, with exit 1, where it
// cannot write, and what it says then is all that anybody learns. What it says short of
// that, as of a peer that is away, reaches whoever asks it.
type complaints struct {
	dir  string
	to   io.Writer
	of   []zapcore.Field
	over *atomic.Bool // its folder may be gone: what cannot be written there is no matter
}

// Enabled implements zapcore.Core.
func (complaints) Enabled(l zapcore.Level) bool { return l > zapcore.ErrorLevel }

// With implements zapcore.Core.
func (c complaints) With(of []zapcore.Field) zapcore.Core {
	c.of = append(c.of[:len(c.of):len(c.of)], of...)
	return c
}

// Check implements zapcore.Core.
func (c complaints) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) {
		return to
	}
	return to.AddCore(e, c)
}

// Write implements zapcore.Core.
func (c complaints) Write(e zapcore.Entry, more []zapcore.Field) error {
	if c.over.Load() {
		return nil
	}
	said := zapcore.NewMapObjectEncoder()
	for _, f := range append(c.of[:len(c.of):len(c.of)], more...) {
		f.AddTo(said)
	}
	why := ""
	if err, ok := said.Fields["error"]; ok {
		why = fmt.Sprintf(": %v", err)
	}
	_, err := fmt.Fprintf(c.to, "etcd: in %s: %s%s; free space there or set TMPDIR\n", c.dir, strings.TrimSpace(e.Message), why)
	return err
}

// Sync implements zapcore.Core.
func (complaints) Sync() error { return nil }
