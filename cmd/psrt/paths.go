package main

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/tiers/ckpt"
	"psrt/tiers/export/outdir"
	"psrt/tiers/localpath"
)

// pathUse says what a command does with a path that it was given.
type pathUse int

const (
	readsFile  pathUse = iota + 1
	readsFiles         // files, patterns and directories, separated by commas
	readsModel         // a model, a history or an export
	writesFile
	writesModel   // a directory that holds what is written and nothing else that is read
	writesScratch // directories, separated by commas, in which other things may lie
)

// flagPaths says what flags with paths are for. Flags that mean different things in
// different commands are in pathOf.
var flagPaths = map[string]pathUse{
	"data": readsFiles, "valid": readsFiles, "test": readsFiles, "text": readsFiles,
	"schema": readsFile, "config": readsFile, "accessor": readsFile, "tables": readsFile, "against": readsFile,
	"token-file": readsFile, "tls-ca": readsFile, "tls-cert": readsFile, "tls-key": readsFile,
	"model": readsModel, "load": readsModel,
	"json": writesFile, "report": writesFile, "trace": writesFile, "stream-log": writesFile, "ready-file": writesFile, "emit": writesFile,
	"save": writesModel, "serving": writesModel, "checkpoint": writesModel,
	"audit": writesScratch, "tensorboard": writesScratch, "ssd": writesScratch, "pmem": writesScratch,
}

// placeFlags may name a place in a store.
var placeFlags = []string{"checkpoint", "serving", "model"}

// pathOf is the use of a flag, 0 of one that takes no path.
func pathOf(c *cobra.Command, f *pflag.Flag) pathUse {
	name, _ := pflag.UnquoteUsage(f)
	switch {
	case f.Value.Type() != "string":
		return 0
	case f.Name == "out" && name == "directory":
		return writesModel
	case f.Name == "out":
		return writesFile
	case f.Name == "checkpoint" && c.Name() == "export":
		return readsModel
	}
	return flagPaths[f.Name]
}

// argumentPaths are the uses of arguments without a flag, by command.
var argumentPaths = map[string]pathUse{"psrt export verify": readsModel, "psrt checkpoint ls": readsModel, "psrt checkpoint verify": readsModel,
	"psrt checkpoint diff": readsModel, "psrt checkpoint merge": readsModel, "psrt audit": readsModel, "psrt plan": readsFile, "psrt man": writesScratch}

// givenPath is one path of a command line.
type givenPath struct {
	flag  string // "--out ", or "" of an argument
	name  string // as it was given
	use   pathUse
	place bool // it may be in a store

	real string      // absolute, without symbolic links as far as it exists
	info os.FileInfo // nil: nothing is there
}

func (p *givenPath) String() string { return p.flag + p.name }

// checkPaths refuses addresses where paths are meant, and outputs that would replace an
// input or another output. It looks at the flags as they are and changes nothing.
func checkPaths(c *cobra.Command, args []string) error {
	all := pathsOf(c, args)
	for _, p := range all {
		switch scheme := localpath.Scheme(p.name); {
		case scheme == "", p.place && scheme == "s3":
		case p.place:
			return cli.Usagef("%v: want a directory or s3://bucket/prefix, not %s:// (a directory of this name is ./%s)", p, scheme, p.name)
		default:
			return cli.Usagef("%s%w", p.flag, localpath.Check(p.name))
		}
	}
	for i, p := range all {
		if p.use < writesFile {
			continue
		}
		for k, other := range all {
			if i == k || other.use >= writesFile && k < i {
				continue
			}
			if why := p.spoils(other); why != "" {
				return cli.Usagef("%v and %v: %s; choose another path for one of them", p, other, why)
			}
		}
	}
	return nil
}

// pathsOf is all paths of a command line, patterns resolved.
func pathsOf(c *cobra.Command, args []string) (all []*givenPath) {
	add := func(flag, names string, use pathUse, place bool) {
		list := []string{names}
		if use == readsFiles || use == writesScratch {
			list = paths(names)
		}
		if flag == "--emit " {
			list = []string{names + ".ids.npy", names + ".vectors.npy"}
		}
		for _, name := range list {
			if name == "" || name == "-" {
				continue
			}
			p := &givenPath{flag: flag, name: name, use: use, place: place}
			at := name
			if place {
				at, _ = ckpt.SplitPlace(name)
			}
			p.find(at)
			all = append(all, p)
			if use != readsFiles || p.info != nil || localpath.Scheme(name) != "" {
				continue
			}
			found, _ := filepath.Glob(name) // a bad pattern is refused where data are opened
			for _, file := range found {
				p := &givenPath{flag: flag, name: file, use: use}
				p.find(file)
				all = append(all, p)
			}
		}
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if use := pathOf(c, f); use != 0 && f.Value.String() != "" {
			add("--"+f.Name+" ", f.Value.String(), use, slices.Contains(placeFlags, f.Name))
		}
	})
	for _, arg := range args {
		if use := argumentPaths[c.CommandPath()]; use != 0 {
			add("", arg, use, use == readsModel && c.Parent().Name() == "checkpoint")
		}
	}
	return all
}

// find resolves links; what does not exist yet lies where its directory does.
func (p *givenPath) find(name string) {
	if localpath.Scheme(name) != "" {
		p.real = name
		return
	}
	p.real = name
	if full, err := filepath.Abs(name); err == nil {
		p.real = full
	}
	p.info, _ = os.Stat(p.real) // nil: nothing is there that could be spoiled
	rest := ""
	for at := p.real; ; at = filepath.Dir(at) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			p.real = filepath.Join(real, rest)
			return
		}
		if at == filepath.Dir(at) {
			return
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// within is the path from a directory to what lies in it, "" for what does not.
func (p *givenPath) within(dir *givenPath) string {
	rel, err := filepath.Rel(dir.real, p.real)
	if err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") {
		return ""
	}
	return rel
}

func (p *givenPath) same(other *givenPath) bool {
	return p.real == other.real || p.info != nil && other.info != nil && os.SameFile(p.info, other.info)
}

func (p *givenPath) isDir() bool { return p.info != nil && p.info.IsDir() }

// special: /dev/null, a pipe and the like are never replaced.
func (p *givenPath) special() bool {
	return p.info != nil && !p.info.Mode().IsRegular() && !p.info.IsDir()
}

// spoils says why an output and another path cannot be what they are, "" if they can.
func (p *givenPath) spoils(other *givenPath) string {
	isData := other.use == readsFiles
	switch {
	case p.special() || other.special():
		return ""
	case p.flag == "--save " && other.flag == "--load ":
		return "" // a server goes on with what it saved
	case p.same(other) && other.use >= writesFile:
		return "both would be written to one place"
	case p.same(other):
		return "what is read would be written over"
	case p.use == writesScratch:
		return ""
	case isData && other.isDir() && p.within(other) != "":
		return "what is written would lie among the data, and be read as data the next time"
	case isData && matches(other.real, p.real):
		return "what is written would match the pattern, and be read as data the next time"
	case p.use == writesModel && !p.place && isData && other.within(p) != "": // a history leaves other files alone
		return "the data lie in the directory that is written"
	case p.use == writesFile && (other.use == readsModel || other.use == writesModel) && ownName(other, p.within(other)):
		return "it would be written over a file of the model"
	case p.use == writesModel && other.use == readsModel && other.within(p) != "":
		return "what is read lies in the directory that is written"
	}
	return ""
}

func matches(pattern, name string) bool {
	yes, err := filepath.Match(pattern, name)
	return yes && err == nil && pattern != name
}

// ownName reports whether a path below a model's directory is one of psrt's own.
func ownName(model *givenPath, below string) bool {
	if below == "" {
		return false
	}
	top, _, _ := strings.Cut(below, "/")
	if top == outdir.ManifestName || top == "HEAD" || strings.HasPrefix(top, "MANIFEST") || strings.HasPrefix(top, "parts-") || strings.HasPrefix(top, ".") {
		return true
	}
	e, err := outdir.Open(model.real)
	if err != nil {
		return false
	}
	defer e.Close()
	return e.Has(top)
}

// replaceable refuses the directory of a flag for a model, unless it is missing, empty
// or holds a model of psrt. Files that the same command was told to read or write in it
// may be there.
func replaceable(c *cobra.Command, flag, dir string) error {
	at := &givenPath{}
	at.find(dir)
	var known []string
	for _, p := range pathsOf(c, nil) {
		if rel := p.within(at); rel != "" {
			top, _, _ := strings.Cut(rel, "/")
			known = append(known, top)
		}
	}
	if err := ckpt.Replaceable(cmp.Or(dir, "."), known...); err != nil {
		return cli.Usagef("--%s: %w", flag, err)
	}
	return nil
}
