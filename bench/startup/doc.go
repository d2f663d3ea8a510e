// Package startup measures how soon a job trains: real psrt processes from the command until
// the first step is over, and the trial of all connections that ranks on several hosts make
// before anything else.
//
// It owns the data and the command lines of these jobs, the hosts (namespaces and the way
// between them), and what is read of what psrt says. It must not know flags of its own
// program, nor how ranks meet.
//
// The life of one run: Run writes the data. Round by round it runs as many processes of psrt
// as a job has, which only say their version (what the machine takes to start them), then a
// job that psrt starts itself, and notes when the first epoch, one step long, is reported. For
// the preflight it starts its own program again as the station, which is the switch, and
// once more for each host: each in a namespace of its own, runs a rank of psrt as a person
// would start it there, and says what that one said. All jobs must end with one digest, for
// they train the same however many ranks they have.
package startup
