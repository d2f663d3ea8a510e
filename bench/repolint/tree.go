package repolint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// module is the path of the house's module: imports that begin with it are ours.
const module = "psrt"

// maxFileBytes bounds what is read of one file; what is larger is data.
const maxFileBytes = 1 << 20

// File is one text file of the repository.
type File struct {
	Path string // from the repository's root, with slashes
	Text []byte
	Go   *ast.File // nil unless it is Go outside testdata, and parses
	Err  error     // why Go is nil although it should not be
}

// Dir is the folder the file lies in.
func (f *File) Dir() string { return path.Dir(f.Path) }

// Base is the file's name.
func (f *File) Base() string { return path.Base(f.Path) }

// Test says whether the file is compiled into tests only.
func (f *File) Test() bool { return strings.HasSuffix(f.Path, "_test.go") }

// Lines counts the lines.
func (f *File) Lines() int { return bytes.Count(f.Text, []byte("\n")) }

// Tree is the repository: its files in the order of their paths, and the names
// of its top level.
type Tree struct {
	Files []*File
	Top   []string
	fset  *token.FileSet
}

// Line is the line of a syntax node's position.
func (t *Tree) Line(pos token.Pos) int { return t.fset.Position(pos).Line }

// GoFiles are the files with Go syntax.
func (t *Tree) GoFiles() []*File {
	var files []*File
	for _, f := range t.Files {
		if f.Go != nil {
			files = append(files, f)
		}
	}
	return files
}

// Import is one import of a file.
type Import struct {
	Path string // as written
	Ours string // inside the module, without its name; empty if not ours
	Line int
}

// Imports lists what a file imports.
func (t *Tree) Imports(f *File) []Import {
	var imports []Import
	for _, spec := range f.Go.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has checked it
		}
		ours, isOurs := strings.CutPrefix(p, module+"/")
		if !isOurs {
			ours = ""
		}
		imports = append(imports, Import{Path: p, Ours: ours, Line: t.Line(spec.Pos())})
	}
	return imports
}

// skipped are folders that hold no source of ours: build results, caches, and
// this package's fixtures, which break rules on purpose.
var skipped = []string{".git", ".cache", "bin", "out", "bench/repolint/testdata"}

// Load reads the repository at root.
func Load(root string) (*Tree, error) {
	t := &Tree{fset: token.NewFileSet()}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("repolint: %w", err)
	}
	for _, e := range entries {
		t.Top = append(t.Top, e.Name())
	}
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if slices.Contains(skipped, rel) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err != nil || info.Size() > maxFileBytes {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		t.add(rel, text)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("repolint: %w", err)
	}
	return t, nil
}

// add takes a file in; data with zero bytes in it is no text and is left out.
func (t *Tree) add(rel string, text []byte) {
	if bytes.IndexByte(text, 0) >= 0 {
		return
	}
	f := &File{Path: rel, Text: text}
	if strings.HasSuffix(rel, ".go") && !strings.Contains("/"+rel, "/testdata/") {
		f.Go, f.Err = parser.ParseFile(t.fset, rel, text, parser.ParseComments|parser.SkipObjectResolution)
		if f.Err != nil {
			f.Go = nil
		}
	}
	t.Files = append(t.Files, f)
}
