// Package azure proves the provider of Azure Blob Storage: against Azurite as it is, against
// Azurite with immutability before it, and, when asked to, against a real account.
package azure

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/azure"
	"druid.internal/druid/internal/store/storetest"
	"druid.internal/druid/test/faults"
	"druid.internal/druid/test/stores"
	"druid.internal/druid/test/stores/azworm"
)

// azurite serves the tests that need no immutability, worm those that do.
var (
	azurite *stores.Azurite
	worm    *azworm.Server
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	var err error
	if azurite, err = stores.StartAzurite(context.Background(), stores.AzuriteOptions{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := azurite.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	if worm, err = azworm.Start(context.Background(), azworm.ServerOptions{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := worm.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	defer func() {
		if silently.server != nil {
			if err := silently.server.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
	}()
	return m.Run()
}

var containers atomic.Int64

func newName() string { return fmt.Sprintf("container-%d", containers.Add(1)) }

// account is a server with the account of Azurite, reached at an endpoint.
type account struct {
	endpoint string
	ca       *stores.CA
	managed  *azworm.Server // nil: without a management API
}

func plain() account   { return account{endpoint: azurite.Endpoint, ca: azurite.CA} }
func locking() account { return account{endpoint: worm.Endpoint, ca: worm.CA, managed: worm} }

// options reach a container of the account with its key, unless changed.
func (a account) options(name string) azure.Options {
	o := azure.Options{
		Account: stores.AzuriteAccount, Container: name, Endpoint: a.endpoint, TrustedCAs: a.ca.PEM,
		Keys:      func() (azure.Keys, error) { return azure.Keys{AccountKey: stores.AzuriteKey}, nil },
		BlockSize: block, PageSize: 100,
	}
	if a.managed != nil {
		o.Management = &azure.Management{Subscription: azworm.Subscription, ResourceGroup: azworm.ResourceGroup, Endpoint: a.managed.Management}
		o.ManagementIdentity = azworm.Token(a.managed.Token)
	}
	return o
}

// block is small, so that large blobs have several.
const block = 4 << 20

// hands are those of the account's owner on a container.
func (a account) hands(name string) stores.AzureContainer {
	return stores.AzureContainer{Endpoint: a.endpoint, CA: a.ca, Key: stores.AzuriteKey, Name: name}
}

func (a account) raw(t *testing.T, s store.Reader) stores.Raw {
	t.Helper()
	r, err := a.hands(containerOf(s)).Raw()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// container is the SDK's own client, for arranging and attacking. It never repeats.
func (a account) container(t *testing.T, name string) *container.Client {
	t.Helper()
	c, err := a.hands(name).Client()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// create makes a container with a name of its own.
func (a account) create(t *testing.T) string {
	t.Helper()
	name := newName()
	if _, err := a.container(t, name).Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return name
}

func open(t *testing.T, o azure.Options) *azure.Store {
	t.Helper()
	s, err := azure.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.CloseIdle)
	return s
}

// containerOf finds the name of a store's container, for what the suite does behind its back.
func containerOf(s store.Reader) string { return strings.Fields(s.Capabilities().Location)[1] }

var update = flag.Bool("update", false, "rewrite the committed results")

// wormServer is what everything about immutability is proven against.
const wormServer = "Azurite " + stores.AzuriteVersion + " behind a shim of our own"

// report is what all results have in common.
func report(bucket, server string) storetest.Report {
	return storetest.Report{Server: server, Bucket: bucket, Limits: []string{
		"Azure's own behaviour: shim and management interface do what Microsoft documents about immutability, which is not observed behaviour",
	}}
}

func TestAzureKeepsTheContractWithoutImmutability(t *testing.T) {
	o := plain().suite()
	report("no immutability", "Azurite "+stores.AzuriteVersion).Publish(t, &o, "../results/azure-plain.json", *update)
	storetest.Run(t, o)
}

// suite describes the provider in plain containers of the account.
func (a account) suite() storetest.Options {
	return storetest.Options{
		New: func(t *testing.T) store.Store { return open(t, a.options(a.create(t))) },
		Want: store.Capabilities{
			Provider: "ABS", ConditionalPut: true, Tags: true, InlineRetention: true, InlineTags: true,
		},
		SetTag: true, Copy: true, Inspect: true, ServerTime: true,
		NoBucket:   a.noContainer,
		Outage:     a.outage,
		BrokenList: a.brokenList,
		ManyKeys:   250, // three pages of options
		Cut:        a.cutDownload,
		Overwrite:  a.overwrite,
		Hide:       a.hide,
		NoMarkers:  true,
		// Azure has no way to take back blocks that were not committed: see leftovers_test.go.
		NoKeys:   []string{strings.Repeat("k", 1025), "not\xffutf8", "a/dot.", "a/slash/", "a/../b", "a/./b", "odd/back\\slash"},
		OddKeys:  []string{"a/with space", "a/plus+sign", "a/percent%41", "a/umlaut-\u00e4", "a/question?mark", "a/amp&er=sand", "a/<xml>"},
		TagValue: "a b+c=d_e.f/g:h-i",
	}
}

// noContainer is a store whose container disappears after it was opened; opening one that is
// not there fails already.
func (a account) noContainer(t *testing.T) store.Store {
	name := a.create(t)
	s := open(t, a.options(name))
	if _, err := a.container(t, name).Delete(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// outage is a store whose server goes away after it was opened.
func (a account) outage(t *testing.T) store.Store {
	link := faults.NewLink(t, strings.TrimPrefix(strings.TrimSuffix(a.endpoint, "/"+stores.AzuriteAccount), "https://"))
	o := a.options(a.create(t))
	o.Endpoint = "https://" + link.Address + "/" + stores.AzuriteAccount
	o.Attempts = 1
	s := open(t, o)
	link.Cut()
	return s
}

// Reach is for a gate before the account.
func (a account) Reach() (string, *stores.CA) {
	return strings.TrimSuffix(a.endpoint, "/"+stores.AzuriteAccount), a.ca
}

// through is another store on the container of s, behind a gate.
func (a account) through(t *testing.T, name string, change func(*azure.Options)) (*azure.Store, *faults.Gate) {
	t.Helper()
	gate := faults.NewGate(t, a)
	o := a.options(name)
	o.Endpoint = gate.Endpoint + "/" + stores.AzuriteAccount
	o.Attempts = 1
	if change != nil {
		change(&o)
	}
	return open(t, o), gate
}

func (a account) brokenList(t *testing.T, s store.Store) store.Reader {
	behind, gate := a.through(t, containerOf(s), nil)
	gate.Inject(faults.Fault{Match: faults.Request(http.MethodGet, "comp=list", "marker="), Status: http.StatusInternalServerError, Code: "InternalError"})
	return behind
}

func (a account) cutDownload(t *testing.T, s store.Store, v store.Version) io.ReadCloser {
	behind, gate := a.through(t, containerOf(s), nil)
	gate.Inject(faults.Fault{Match: faults.Request(http.MethodGet), Truncate: 512 << 10})
	r, err := behind.Open(t.Context(), v, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (a account) overwrite(t *testing.T, s store.Store, key string, body []byte) {
	t.Helper()
	if err := a.raw(t, s).Overwrite(t.Context(), key, body); err != nil {
		t.Fatal(err)
	}
}

// hide deletes a blob by its name; a lock may refuse that.
func (a account) hide(t *testing.T, s store.Store, key string) {
	t.Helper()
	err := a.raw(t, s).Hide(t.Context(), key)
	if err != nil && !bloberror.HasCode(err, bloberror.BlobNotFound, bloberror.BlobImmutableDueToPolicy) {
		t.Fatal(err)
	}
}

// uncommitted lists the blocks of a key that were staged and not committed.
func (a account) uncommitted(t *testing.T, name, key string) int {
	t.Helper()
	list, err := a.container(t, name).NewBlockBlobClient(key).GetBlockList(t.Context(), blockblob.BlockListTypeUncommitted, nil)
	if bloberror.HasCode(err, bloberror.BlobNotFound) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(list.UncommittedBlocks)
}
