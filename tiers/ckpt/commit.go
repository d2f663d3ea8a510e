package ckpt

import (
	"fmt"
	"os"
	"path/filepath"
)

const manifestTemp = "MANIFEST.json.new"

// Commit makes the parts in m the model of the directory, in place of the old
// one if there is one. When it fails the old model is untouched, and the
// incoming one is removed.
func (in *Incoming) Commit(m Manifest) error {
	if in.lock == nil {
		return fmt.Errorf("ckpt: %s is committed or aborted already", in.dir)
	}
	if err := in.commit(m); err != nil {
		if in.lock != nil {
			_ = in.Abort() // the error that matters is err
		}
		return err
	}
	return nil
}

func (in *Incoming) commit(m Manifest) error {
	m.Format, m.Generation = FormatModel, partsPrefix+in.id
	if len(m.Meta) == 0 {
		m.Meta = []byte("null")
	}
	if err := m.validate(); err != nil {
		return fmt.Errorf("ckpt: this is not a whole model: %w", err)
	}
	for _, p := range m.Parts {
		path := filepath.Join(in.Path(), p.File)
		st, err := os.Stat(path)
		if err != nil {
			return explain("looking at", path, err)
		}
		if st.Size() != p.Bytes {
			return fmt.Errorf("ckpt: %s has %d bytes, its writer reported %d; is %s the same directory on every machine?", path, st.Size(), p.Bytes, in.dir)
		}
	}
	b, err := m.render()
	if err != nil {
		return err
	}
	if err := in.disk.SyncDir(in.Path()); err != nil {
		return explain("syncing", in.Path(), err)
	}
	l, err := lockDir(filepath.Join(in.dir, ".lock"))
	if err != nil {
		return err
	}
	defer l.Close()
	return in.replace(b, m.Generation)
}

// replace switches from the old model to the new one. DIR/.lock is held.
func (in *Incoming) replace(manifest []byte, generation string) error {
	d, parts := in.disk, filepath.Join(in.dir, generation)
	temp, final := filepath.Join(in.dir, manifestTemp), filepath.Join(in.dir, ManifestName)
	if exists(temp) {
		if err := d.RemoveAll(temp); err != nil {
			return explain("removing", temp, err)
		}
	}
	if err := writeFile(d, temp, manifest); err != nil {
		_ = d.RemoveAll(temp)
		return explain("writing", temp, err)
	}
	if err := d.Rename(in.Path(), parts, false); err != nil {
		_ = d.RemoveAll(temp)
		return explain("renaming", in.Path(), err)
	}
	// The new parts must be findable before the manifest says so.
	err := d.SyncDir(in.dir)
	if err == nil {
		err = d.Rename(temp, final, true)
	}
	if err != nil {
		_ = d.RemoveAll(temp)
		_ = d.RemoveAll(parts)
		in.end()
		return explain("renaming", temp, err)
	}
	in.end()
	if err := d.SyncDir(in.dir); err != nil {
		return explain("syncing", in.dir, err)
	}
	_ = d.RemoveAll(filepath.Join(parts, ownerLock))
	clean(d, in.dir)
	return nil
}
