package codec

import "druid.internal/druid/internal/backup/snapshot"

// Record is one change of one key, with the bytes etcd's mvcc backend stores for it.
//
// A revision has a main part, shared by everything one transaction did, and a sub part: the
// position of the change within that transaction, from 0. A delta holds every event of each of
// its revisions in order, so sub is the index of the event among those of its main revision.
type Record struct {
	Main      snapshot.Revision
	Sub       int64
	Tombstone bool
	Create    snapshot.Revision // 0 for tombstones
	Version   int64             // 0 for tombstones
	Lease     int64
	Received  int64  // Unix nanoseconds when the writer received it; 0: not recorded
	Key       []byte // aliases Value where possible; valid as long as the batch it came in
	Value     []byte // a marshalled mvccpb.KeyValue; of a tombstone only the key field
}
