// Package across is a benchmark's psrt servers in a process of their own, and the
// way to them: what the suites that push to and pull from servers begin with.
//
// It owns the child's first and last words, the token that both sides share, the
// transports at both ends and the map of one server with one lane. It must not
// know what is measured.
//
// The life of one run: Open starts the program again, tells it the suite's
// configuration and hears where its servers are; clients made by Connect measure.
// The child's body is Serve, which lets the suite start its servers, answers with
// their addresses and runs until the parent closes its standard input, which
// Side.Close does.
package across
