// Package nap lets time pass between two looks at something that others do, a GPU's work for
// one, which tells nobody that it is over.
//
// It owns how long: as many looks as can be where a wait is short, fewer and fewer where it
// is long. It must not know what is waited for, nor when to give up.
//
// The life of a wait: its user notes when it began, looks, and calls Rest with the time since,
// again and again. rdma/patience is for pollers that can be woken, and learn from wait to wait.
package nap
