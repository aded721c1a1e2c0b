// Package sites makes the real servers of every provider look alike to tests that go whole
// ways: a bucket of some protection, how etcdbrctl is told to reach it and as whom, and what
// others do to it without asking.
//
// A site is started by the first test that needs it and serves all tests of the program; each
// makes buckets of its own. All servers speak TLS. What a server does is not judged here.
package sites

import (
	"context"
	"net/http"

	"druid.internal/druid/test/stores"
)

// Site is one running server, or a directory.
type Site interface {
	// Name is the server's, for the names of tests.
	Name() string
	// Kinds are the kinds of bucket it has, the first without any protection.
	Kinds() []Kind
	// Create makes a bucket.
	Create(ctx context.Context, bucket string, k Kind) error
	// Reach is where clients find the server and whom they trust; empty for a directory.
	Reach() (endpoint string, ca *stores.CA)
	// Way is how a program reaches a bucket at an endpoint, which is the server's own or one
	// that leads there, and as whom.
	Way(ctx context.Context, bucket, endpoint string, who Who) (Way, error)
	// Raw is a bucket in the hands of somebody.
	Raw(ctx context.Context, bucket string, who Who) (stores.Raw, error)
	// Request tells what a request does.
	Request(r *http.Request) Request

	stop() error
}

// Lifter is a site whose owner can lift the locks of some kinds of bucket. Programs do not
// believe a server whose clock is far ahead, so no test can wait for locks of a day.
type Lifter interface {
	// Lift ends all locks of a bucket of a kind that is Loose.
	Lift(ctx context.Context, bucket string) error
}

// Kind is a kind of bucket.
type Kind struct {
	Name     string // part of buckets' names: lower-case letters and hyphens
	Versions bool   // what is overwritten or deleted by its name stays as a version
	Locks    bool   // everything written is locked for a day
	Whole    bool   // with Locks: what is there can be neither overwritten nor hidden, either
	Markers  bool   // with Versions: a deletion without a version leaves a marker
	Loose    bool   // with Locks: the owner can lift them, see Lifter
	Each     string // the mode in which whoever writes is to lock each object; empty: the bucket does, or nobody
}

// Plain keeps nothing.
var Plain = Kind{Name: "plain"}

// Prefix is the one below which those live who have a part of the rights, where a site can keep them to one.
const Prefix = "ns--uid/etcd-main"

// Who asks.
type Who int

const (
	Owner     Who = iota // may do everything that the server lets anybody do
	Writer               // may read and write, and neither delete nor change locks
	Locker               // is a Writer who also locks what he writes, up to a cap; servers that speak S3 alone have one
	Reader               // may read
	Collector            // may read and delete
	Extender             // may read and prolong locks; Swift, OSS and directories have none
	Excluder             // may read and tag; Swift, OSS and directories have none
	Stranger             // is known and may do nothing here; Swift, OSS and directories have none
	Impostor             // has the owner's name and not the secret
	Nobody               // is not known
)

// Way is how a program is told where a bucket is and who asks.
type Way struct {
	Provider, Container, Endpoint string

	Variable string            // of the environment, that names the credentials; empty: there are none
	Files    map[string]string // of the credentials
	File     string            // the variable names this file; empty: their directory
	More     map[string]string // further variables; $DIR in them is the directory of the files
}

// Administrable is a site where changing how buckets protect takes another way than writing into them.
type Administrable interface {
	AdminWay(ctx context.Context, bucket, endpoint string, who Who) (Way, error)
}

// CAFile is the name of the file of the credentials that holds the trusted CA.
const CAFile = "trustedCaCert"

// Does is what a request does.
type Does string

const (
	List    Does = "list"
	Put     Does = "put"    // a whole object
	Begin   Does = "begin"  // an upload in parts
	Part    Does = "part"   // of an upload
	Finish  Does = "finish" // an upload in parts: makes it visible
	Cancel  Does = "cancel" // an upload in parts
	Copy    Does = "copy"
	Stat    Does = "stat"
	Read    Does = "read"
	Delete  Does = "delete"
	Inspect Does = "inspect" // the bucket
	LogIn   Does = "log in"
	Other   Does = "other"
)

// Request is what a request does to what. Key is empty where it is not about one object.
type Request struct {
	Does Does
	Key  string
}

// Has finds a site's kind by name.
func Has(s Site, name string) (Kind, bool) {
	for _, k := range s.Kinds() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}
