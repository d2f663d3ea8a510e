// Package blk is disks as a log needs them: files in a directory, read and
// written in whole blocks, many at a time, without waiting.
//
// It owns requests in flight, alignment, who may use a directory, and what a
// kernel offers: Open takes io_uring with registered files and buffers and
// O_DIRECT, each where it can, and pread with a few threads where io_uring is
// forbidden; String says what came of it and why. Beside these there are a
// Memory, whose power tests can cut, and Faulty, which harms requests by a
// script. It must not know what is in a file, nor how files make up a log.
//
// The life of one request: Submit holds it against the rules of Request and
// counts it in its file, then passes it on, many in one system call; the
// device works; OnResult's function is called, or Wait returns; Poll takes
// the answer, gives short transfers and those that a signal cut off to the
// kernel again, and turns what is left into a Result. A request is refused by
// Submit, or has exactly one Result.
//
// Faults survived, with the test that shows it:
//   - power cut between any two steps: what Sync and names promise
//     (TestCrashKeepsWhatWasSynced, TestCrashAndNames, TestStepsEndAnywhere);
//   - EIO, ENOSPC, quotas, short and interrupted transfers: a Result with an
//     Error that names file and place (TestOutcome, TestFaultsOfRequests);
//   - a full disk: Create refuses before it takes what is left (TestNoRoom);
//   - io_uring forbidden: TestForbiddenRing; old kernels: TestConformance;
//   - two processes on one directory, one of them killed: TestSecondIsRefused;
//   - the directory removed while in use: TestDirectoryIsGone;
//   - Close with requests in flight: TestConformance (CloseInFlight).
//
// Not seen here are bits that decay: a log has checksums.
package blk
