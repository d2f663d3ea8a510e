// Package clitest holds what is written about a program against the program: the command
// lines of the README and of docs/ must name commands and flags that there are. It knows
// commands by their trees alone, and runs none of them.
//
// A page's life: Lines cuts code out of it (fenced and indented blocks, words between
// backquotes), joins lines that a backslash continues, and cuts each at what ends a shell's
// command; Holds looks for the program's name among the words, then for the command, then for
// each flag.
package clitest
