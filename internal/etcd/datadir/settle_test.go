package datadir

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/client/pkg/v3/types"
)

func TestOnlyASoleMemberIsSettled(t *testing.T) {
	three := filepath.Join(t.TempDir(), "data")
	if _, err := Restore(context.Background(), lifeSource(), Options{}, Target{Dir: three, Member: Membership{
		Name: "a", InitialCluster: "a=http://127.0.0.1:1,b=http://127.0.0.1:2,c=http://127.0.0.1:3"}}); err != nil {
		t.Fatal(err)
	}
	want := inspected(t, three, Full)
	if want.State != Valid || len(want.Voters) != 3 || len(want.Membership) != 3 || want.MembershipDiffers != "" {
		t.Errorf("%+v, want three voters", want)
	}
	if _, err := Settle(context.Background(), three); !errors.Is(err, ErrNotSole) {
		t.Errorf("one of three: %v, want ErrNotSole", err)
	}
	if diff := cmp.Diff(want, inspected(t, three, Full)); diff != "" {
		t.Errorf("it was changed (-before +after):\n%s", diff)
	}
	gone := written(t)
	i := inspected(t, gone, Sanity)
	edit(t, databasePath(gone), membersRemovedBucket, map[string][]byte{types.ID(i.MemberID).String(): []byte("removed")})
	if i = inspected(t, gone, Sanity); i.State != Valid || !i.Removed {
		t.Errorf("%+v, want Removed", i)
	}
	if _, err := Settle(context.Background(), gone); !errors.Is(err, ErrNotSole) {
		t.Errorf("one that was removed: %v, want ErrNotSole", err)
	}
	if _, err := Settle(context.Background(), filepath.Join(t.TempDir(), "nothing")); !errors.Is(err, ErrNotValid) {
		t.Errorf("nothing: %v, want ErrNotValid", err)
	}
}

// The member keeps its name and addresses, also if only the log knows them.
func TestSettlingChangesNothingAboutTheMember(t *testing.T) {
	dir := written(t)
	before := inspected(t, dir, Sanity)
	if _, err := Settle(context.Background(), dir); err != nil {
		t.Fatal(err)
	}
	after := inspected(t, dir, Full)
	if diff := cmp.Diff(before.Membership, after.Membership); diff != "" || len(before.Membership) != 1 || before.Membership[0].Name != "default" {
		t.Errorf("the members (-before +after):\n%s", diff)
	}
	if after.State != Valid || after.Revision != before.Revision || after.MemberID != before.MemberID {
		t.Errorf("%+v, before %+v", after, before)
	}
	young := filepath.Join(t.TempDir(), "data")
	killedUnderLoad(t, young, 0)
	if _, err := Settle(context.Background(), young); err != nil {
		t.Fatal(err)
	}
	if self, ok := inspected(t, young, Sanity).Self(); !ok || self.Name != "default" || len(self.ClientURLs) != 1 {
		t.Errorf("after Settle the member is %+v, %t", self, ok)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough of it")
	cancel(why)
	if _, err := Settle(ctx, dir); !errors.Is(err, why) {
		t.Errorf("%v, want the cause", err)
	}
}
