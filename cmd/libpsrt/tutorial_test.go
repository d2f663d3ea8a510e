//go:build cgo

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program of docs/c-abi.md compiles without a warning and learns.
func TestTutorial(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "c-abi.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(page), "```c\n")
	code, _, ok := strings.Cut(code, "```\n")
	if !ok || !strings.Contains(code, "127.0.0.1:7700") {
		t.Fatal("docs/c-abi.md has no program that connects to 127.0.0.1:7700")
	}
	w := servers(t, "shm", 1)
	dir, lib := t.TempDir(), library(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(filepath.Join(dir, "app.c"), []byte(strings.ReplaceAll(code, "127.0.0.1:7700", w.Listen[0])), 0o600))
	must(os.WriteFile(filepath.Join(dir, "token"), w.Token, 0o600))
	here, err := os.Getwd()
	must(err)
	args := []string{"-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-I" + here, "app.c", "-o", "app", "-L" + lib, "-Wl,-rpath," + lib, "-lpsrt", "-lm"}
	if sanitized() {
		args = append(args, strings.Fields(sanitizers)...)
	}
	build := exec.Command("gcc", args...)
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	app := exec.Command("./app")
	app.Dir = dir
	out, err := app.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var first, last float64
	var step int
	if _, err := fmt.Sscanf(lines[0], "step %d logloss %f", &step, &first); err != nil || first < 0.69 || first > 0.70 {
		t.Errorf("it begins with %q", lines[0])
	}
	if _, err := fmt.Sscanf(lines[len(lines)-1], "step %d logloss %f", &step, &last); err != nil || step != 499 || last > 0.5 {
		t.Errorf("it ends with %q", lines[len(lines)-1])
	}
}
