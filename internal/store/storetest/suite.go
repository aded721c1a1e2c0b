package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/store"
)

// Run proves the contract of package store, one subtest per promise.
func Run(t *testing.T, o Options) {
	o.complete(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := o
			o.notes = &notes{outcome: Proven}
			if o.Record != nil {
				t.Cleanup(func() { o.Record(o.result(t, c)) })
			}
			c.run(t, o)
		})
	}
}

// conformanceCase is one promise of the port. Each runs against a bucket of its own.
type conformanceCase struct {
	name string // a sentence
	run  func(t *testing.T, o Options)
	of   Capability
}

var cases = concat(
	about(Describing, []conformanceCase{{name: "the capabilities are as promised", run: capabilitiesAreAsPromised}}),
	about(Writing, putCases), about(Overwrites, overwriteCases), about(Foreign, foreignCases), about(Reading, readCases),
	about(Listing, listCases), about(Versions, versionCases), about(Locking, lockCases),
	about(Extension, extensionCases), about(Expiry, expiryCases), about(Default, defaultLockCases),
	about(Holding, holdCases), about(Tagging, tagCases), about(Copying, copyCases),
	about(Describing, describingCases), about(Outages, failureCases),
)

// about says which capability the cases prove.
func about(of Capability, group []conformanceCase) []conformanceCase {
	for i := range group {
		group[i].of = of
	}
	return group
}

func concat(groups ...[]conformanceCase) []conformanceCase {
	var all []conformanceCase
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}

func (o *Options) complete(t *testing.T) {
	t.Helper()
	if o.New == nil || o.NoBucket == nil || o.Outage == nil {
		t.Fatal("Options need New, NoBucket and Outage")
	}
	if o.Want.ObjectLock && len(o.Lock) == 0 {
		t.Fatal("Options.Want.ObjectLock needs Options.Lock")
	}
	if o.Want.Versions && o.Hide == nil {
		t.Fatal("Options.Want.Versions needs Options.Hide")
	}
	if o.LockPeriod == 0 {
		o.LockPeriod = time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OutageError == nil {
		o.OutageError = store.ErrUnreachable
	}
	if o.TagValue == "" {
		o.TagValue = "a b+c=d_e.f/g:h@i-j"
	}
	if o.LargeSize == 0 {
		o.LargeSize = 24 << 20
	}
	if o.ManyKeys == 0 {
		o.ManyKeys = 1100
	}
}

func capabilitiesAreAsPromised(t *testing.T, o Options) {
	o.Want.Markers = o.Want.Versions && !o.NoMarkers
	o.Want.Lengthens, o.Want.Holds, o.Want.Copies = o.Extend, o.Hold, o.Copy
	got := o.New(t).Capabilities()
	if got.Provider == "" || got.Location == "" {
		t.Errorf("capabilities name neither provider nor location: %+v", got)
	}
	want := o.Want
	if want.Location == "" {
		want.Location = got.Location
	}
	if want.Endpoint == "" {
		want.Endpoint = got.Endpoint // it has the port of the server under test
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("capabilities (-want +got):\n%s", diff)
	}
}
