// Package cli is what the commands have in common: the kinds of errors and
// their exit codes, messages for mistyped flags, flags for sizes and closed
// sets, --json with or without a file, and the end by a signal.
//
// It must not know any command. The life of one command line: JoinJSON readies
// the arguments, cobra parses them with FlagError for its mistakes, the command
// returns an error, and Exit shows it and gives the code.
package cli
