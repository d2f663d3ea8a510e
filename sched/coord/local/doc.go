// Package local is a coordinator inside this process: the launcher of a job on
// one machine holds it and serves it to the other ranks through coord/remote.
//
// It owns keys, a bounded history of changes, watchers' queues and leases. It
// must not know who calls or what keys mean. It promises nothing beyond this
// process's life.
//
// The life of a change: the mutex is taken, the key changes, the revision
// rises, the event is appended to the history and to the queue of each watcher
// of that prefix (a full queue ends its watcher), the mutex is let go. Nothing
// blocks under the mutex. One goroutine ends leases when their time has come.
package local
