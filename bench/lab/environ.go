package lab

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Checkout is the module's root at or above dir, else dir.
func Checkout(dir string) string {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d
		}
		if d == filepath.Dir(d) {
			return dir
		}
	}
}

// handedOn are the caller's variables that a command sees, and those that begin
// with PSRT_ and LC_.
var handedOn = []string{
	"HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TERM", "TMPDIR",
	"GOMAXPROCS", "GODEBUG", "GOTRACEBACK", "GORACE", "GOCOVERDIR", "GOGC", "GOMEMLIMIT",
}

// system is where tools lie that a user's PATH may leave out.
var system = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// Environment returns the variables of a command in the lab: those of the caller that the lab
// passes on, then more, each NAME=VALUE or NAME for the caller's value, then the machine's own.
func Environment(caller, more, machine []string) []string {
	env := map[string]string{"HOME": "/", "USER": "root"}
	values := map[string]string{}
	for _, v := range caller {
		key, value, _ := strings.Cut(v, "=")
		values[key] = value
		if slices.Contains(handedOn, key) || strings.HasPrefix(key, "PSRT_") || strings.HasPrefix(key, "LC_") {
			env[key] = value
		}
	}
	for _, v := range more {
		key, value, given := strings.Cut(v, "=")
		if !given {
			value, given = values[key]
		}
		if given {
			env[key] = value
		}
	}
	path := filepath.SplitList(values["PATH"])
	for _, d := range system {
		if !slices.Contains(path, d) {
			path = append(path, d)
		}
	}
	env["PATH"] = strings.Join(path, ":")
	for _, v := range machine {
		key, value, _ := strings.Cut(v, "=")
		env[key] = value
	}
	var list []string
	for key, value := range env {
		list = append(list, key+"="+value)
	}
	slices.Sort(list)
	return list
}
