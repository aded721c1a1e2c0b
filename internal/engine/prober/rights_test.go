package prober_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/engine/prober"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/retry"
	"druid.internal/druid/internal/store/storetest"
)

// rehearsing is a store that answers trials.
type rehearsing struct {
	*storetest.Faulty
	trials []store.Trial
}

func (r rehearsing) Rehearse(context.Context, string) []store.Trial { return r.trials }

func TestEachRightThatARoleLacksIsListed(t *testing.T) {
	denied := fmt.Errorf("%w: grant s3:PutObject", store.ErrForbidden)
	all := func(errs map[store.Change]error) (trials []store.Trial) {
		for _, c := range []store.Change{store.ChangeWrite, store.ChangeAbort, store.ChangeDelete, store.ChangeExtend, store.ChangeTag} {
			trials = append(trials, store.Trial{Change: c, Err: errs[c]})
		}
		return trials
	}
	cases := map[string]struct {
		role    prober.Role
		trials  []store.Trial
		faults  []storetest.Fault
		empty   bool
		want    string // of what is not granted: "right: answer", with commas
		missing bool
	}{
		"a member that has all": {prober.RoleMember, all(nil), nil, false, "", false},
		"a member that may not list": {prober.RoleMember, all(nil), []storetest.Fault{storetest.Fail(denied).On(storetest.OpList, "").Always()}, false,
			"list all versions: missing, read objects: not tried, read locks: not tried, read tags: not tried", true},
		"a member that may not write":        {prober.RoleMember, all(map[store.Change]error{store.ChangeWrite: denied}), nil, false, "write objects: missing", true},
		"a writer needs no right to delete":  {prober.RoleWriter, all(map[store.Change]error{store.ChangeDelete: denied}), nil, false, "", false},
		"a collector does":                   {prober.RoleCollector, all(map[store.Change]error{store.ChangeDelete: denied}), nil, false, "delete versions: missing", true},
		"a reader that may not read objects": {prober.RoleReader, nil, []storetest.Fault{storetest.Fail(denied).On(storetest.OpOpen, "").Always()}, false, "read objects: missing", true},
		"an extender":                        {prober.RoleExtender, all(map[store.Change]error{store.ChangeExtend: denied}), nil, false, "extend locks: missing", true},
		"an excluder":                        {prober.RoleExcluder, all(map[store.Change]error{store.ChangeTag: errors.New("odd")}), nil, false, "tag versions: not known", false},
		"a store that cannot be tried":       {prober.RoleWriter, nil, nil, false, "write objects: not tried, abort uploads: not tried", false},
		"an empty bucket":                    {prober.RoleReader, nil, nil, true, "read objects: not tried, read locks: not tried, read tags: not tried", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m := storetest.NewMemory(profile(storetest.S3Like(), immutability.ModeCompliance))
			if !c.empty {
				if _, err := m.Put(t.Context(), "p/object", strings.NewReader("body"), store.PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			f := storetest.NewFaulty(m)
			f.Inject(c.faults...)
			before := len(m.Versions("p/object"))
			p, err := prober.New(retry.New(rehearsing{f, c.trials}, retry.Options{}), nil, prober.Options{Prefix: "p"})
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Rights(t.Context(), p.Key(), c.role)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, right := range r.Rights {
				if right.Granted != prober.Has {
					got = append(got, right.What+": "+string(right.Granted))
				}
				if right.Granted == prober.Missing && !strings.Contains(right.Reason, "grant s3:") {
					t.Errorf("%s is missing for %q, want the action", right.What, right.Reason)
				}
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("not granted: %s; want %s", text, c.want)
			}
			if err := r.Err(); (err != nil) != c.missing || c.missing && !errors.Is(err, store.ErrForbidden) {
				t.Errorf("Err = %v, want an error: %t", err, c.missing)
			}
			for _, op := range []storetest.Op{storetest.OpPut, storetest.OpDelete, storetest.OpExtend, storetest.OpTag, storetest.OpHold} {
				if n := f.Count(op); n != 0 {
					t.Errorf("%d requests to %s", n, op)
				}
			}
			if after := len(m.Versions("p/object")); after != before {
				t.Errorf("the bucket has %d versions, before %d", after, before)
			}
		})
	}
}

func TestRightsOfAStoreThatCannotBeReachedAreAnError(t *testing.T) {
	f := storetest.NewFaulty(storetest.NewMemory(profile(storetest.S3Like(), "")))
	f.Inject(storetest.Fail(store.ErrUnreachable).Always())
	p, err := prober.New(f, nil, prober.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Rights(t.Context(), p.Key(), prober.RoleReader); !errors.Is(err, store.ErrUnreachable) {
		t.Errorf("Rights = %v", err)
	}
}
