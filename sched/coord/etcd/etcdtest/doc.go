// Package etcdtest is an etcd as users guard theirs, for tests: certificates on both
// sides, users, and roles with rights on some keys.
//
// It owns the certificates of a test (Authority) and the etcd (Start), which ends with
// the test. It must not know psrt's own handle to an etcd, whose tests are its users.
//
// A test signs what the parties show with an Authority of its own, starts the etcd, and
// comes as User with Password, who may use what is below Prefix; or shows what another
// Authority has signed, and is to be refused.
package etcdtest
