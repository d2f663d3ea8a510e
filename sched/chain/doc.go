// Package chain is chain replication of one group of slots on one server: order,
// forwarding, acknowledgement, what happens when servers die, come, go or are
// believed dead, and who may be asked to read. docs/replication.md is the protocol.
//
// It owns the order of a group's ops, the table that makes every push count once,
// and the messages between the group's servers. It must not know what an op does
// (State does), bytes on wires, disks or time: inputs are calls and Step, time is
// Tick, outputs are taken with Outputs.
//
// # The life of a push
//
//	worker -> head       Submit: has it come before? else it gets the next Seq
//	head -> ... -> tail  Data, in chunks; each forwards what has come so far
//	tail                 whole: done to the state. That is the commit
//	tail -> ... -> head  Ack; each does what is committed to its own state
//	head -> worker       Done
//
// A state holds exactly the ops that its server knows to be committed, in order;
// what may yet be undone is in the log alone. So any member's state may be read
// (Clean), the one of the tail holds all that is acknowledged (Newest), and nothing
// is ever taken back from a row.
//
// # Epochs
//
// Adopt takes a newer chain. The order of survivors never changes, unless the chain
// was drained (Hold), so each one's ops are the beginning of its predecessor's; links
// begin anew (Sync, Ack) and what the successor lacks is sent again. A new tail
// commits nothing before servers that were cut out have stopped serving (Fence).
//
// # The duties of the shell
//
//  1. After every call: Outputs. Messages may be lost; what is written to disk is
//     the State's affair.
//  2. Adopt all groups of a map before it answers any beat with the map's epoch
//     (sched/member); no message of a newer epoch before that, Step refuses it.
//  3. Lease before Submit and MayRead, from member.Peers.Leased at that moment.
//  4. Fenced(epoch) at member.Peers.Released, or once Reached.
//  5. Tick every few tens of milliseconds; Flush when a poll batch ends.
//  6. A changed epoch: forget whom to answer; workers send again, and what is
//     committed or under way is known.
//
// # Bounds
//
// Per group: LogOps and LogBytes of what is not committed (and the op that
// exceeds LogBytes alone), InflightBytes of it on the way, FeedBytes to a joiner
// and one op, and a seventh of that and one item in rows; a joiner that does not keep up slows the
// group down.
package chain
