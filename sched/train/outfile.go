package train

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// outFile is an output that has its name when it is whole: until then it is NAME.tmp
// beside it, and what was there before stays. A name that is no plain file (a pipe, a
// device) is written as it is.
type outFile struct {
	*os.File
	name string // "": it has its name already
}

// createOut finds out at once whether the name can be written.
func createOut(flag, name string) (*outFile, error) {
	if to, err := filepath.EvalSymlinks(name); err == nil {
		name = to
	}
	o := &outFile{name: name}
	at, err := os.Stat(name)
	switch {
	case err == nil && at.IsDir():
		return nil, &InputError{fmt.Errorf("train: %s %s is a directory: give the name of a file", flag, name)}
	case err == nil && !at.Mode().IsRegular():
		o.name = ""
		o.File, err = os.OpenFile(name, os.O_WRONLY, 0)
	default:
		o.File, err = os.Create(tmpName(name))
	}
	if err != nil {
		return nil, &InputError{fmt.Errorf("train: %s: %w", flag, err)}
	}
	return o, nil
}

func tmpName(name string) string { return name + ".tmp" }

// end gives the file its name, or takes it away.
func (o *outFile) end(keep bool) error {
	err := o.Close()
	switch {
	case o.name == "":
	case keep && err == nil:
		err = os.Rename(tmpName(o.name), o.name)
	default:
		err = errors.Join(err, os.Remove(tmpName(o.name)))
	}
	return err
}
