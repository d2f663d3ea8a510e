// Package hbmtest has a device for tests that shows who relies on more than
// hbm.Arena promises.
//
// It owns Late, which does nothing until it is waited for. It must not know what a
// table is; nothing but tests imports it.
//
// The life of one call on a Late: it is put into a queue with the memory it was given, as
// that will be when somebody waits; what an answer is copied to holds rubbish until
// then. Wait carries out all calls up to its fence, in order.
package hbmtest
