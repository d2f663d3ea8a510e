package main

import (
	"testing"

	"psrt/cmd/internal/clitest"
)

// Every command line of the README and of docs/ names commands and flags that there are.
func TestPages(t *testing.T) { clitest.Holds(t, newRoot(), "../..", 50) }
