// Package keeper keeps the servers of `psrt serve --replicas`: it loads the model they
// begin with, lets trainers in, saves, and ends them.
//
// It owns the order of these, and the keys by which the servers learn of it
// (sched/serve). It is one process of the job, the launcher or server 0's, and is a
// client of the servers beside the trainers (kv.Config.Aside): it finds the heads of
// groups as they do, whichever servers die meanwhile. It must not know flags, or how
// servers are started.
//
// # The life of a job
//
//	Begin   waits for the shard map, loads, and has the servers let trainers in
//	Run     saves now and then
//	End     has the servers end the trainers' connections, saves what they have pushed,
//	        and has the servers end
package keeper
