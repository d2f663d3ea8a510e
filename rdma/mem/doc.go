// Package mem gives memory that a network card, another process or a SIMD
// kernel may touch: arenas outside the Go heap, on a chosen NUMA node, in huge
// pages where the machine has them, locked and pre-faulted where asked, every
// one with a purpose that is counted.
//
// It must not know who transfers or what is stored: an Arena is bytes and,
// when shared, the descriptor behind them.
//
// The life of one arena:
//
//  1. New checks the size against MemAvailable and every cgroup limit, so that
//     too large a request is a NoMemoryError with both figures and not the
//     kernel's OOM killer or a SIGBUS later.
//  2. It maps the first of these that works: 2 MiB pages of the kernel's pool
//     (populated at once, because a page missing later would be a SIGBUS),
//     transparent huge pages, 4 KiB pages. Info says which, and why not the
//     better ones.
//  3. Before the first touch mbind ties the pages to the node; then they are
//     pre-faulted and locked if asked. A refused mbind or mlock is a line in
//     Info, not an error, unless Config says Required.
//  4. Alloc hands out pieces from the front; nothing is given back singly.
//  5. Close unmaps. Slices of the arena must not be used any more: whoever
//     registered it closes the registration first.
//
// Usage is kept for the whole process: the counters answer where its memory
// went, and the answer would be wrong with more than one book.
//
// The check of step 1 is a snapshot: arenas that are neither pre-faulted nor
// locked take their pages later, and the promises of several can add up to
// more than the machine has. Servers pre-fault.
package mem
