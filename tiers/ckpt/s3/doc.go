// Package s3 keeps a model's history in an object store that speaks S3.
//
// It owns the URL, the mapping of names to objects, and the lock. It must not
// know what is in a file. The client is minio-go, which finds credentials where
// every S3 tool does: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or MINIO_…),
// ~/.aws/credentials, then the machine's role.
//
//	s3://bucket/prefix?endpoint=http://host:port&region=eu-central-1
//
// Without endpoint it is Amazon's. An object appears whole at the end of its
// upload, so nothing is renamed, and Sync does nothing: a PUT that was answered
// is durable. Large files go up in pieces of PieceBytes while they are written.
//
// The life of a commit: Put with absent sends If-None-Match: *, and the store
// lets one writer win. A store that does not honour that is refused when the
// lock is taken, before anything is written.
//
// The lock is an object that its holder renews. Whoever finds one either knows
// that its process is dead (same host), or watches: a lock that is renewed is
// held, one that is not renewed for LeaseTime is taken over, again by a
// conditional PUT. No two clocks are compared. A holder that finds its lock
// taken stops putting and removing.
package s3
