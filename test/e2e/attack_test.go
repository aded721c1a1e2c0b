package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/test/sites"
	"druid.internal/druid/test/stores"
)

// attack is what somebody with credentials does to harm backups, and what must come of it where they are locked. Whatever
// comes of it, each version that was there before stays, and a restore reads those.
type attack struct {
	name string
	on   target
	do   func(a attacker, v stores.RawVersion) error
	must func(site string, k sites.Kind, who sites.Who) consequence
	// twin is a kind of bucket where it succeeds, as its owner; nil: every site's that protects nothing.
	twin map[string]sites.Kind
}

// attacker is somebody at a bucket.
type attacker struct {
	hands
	site   sites.Site
	bucket string
	who    sites.Who
}

// target is what an attack is tried on.
type target int

const (
	eachObject    target = iota // of the backup
	anotherPrefix               // an object below it, which is another cluster's
	wholeBucket
)

// consequence is what must come of an attack. Any that is not one of these is the code of a finding: it is done, and the next
// listing has that finding about every snapshot.
type consequence string

const (
	untried  consequence = ""         // it has no meaning here
	denied   consequence = "denied"   // the store refuses it
	harmless consequence = "harmless" // done; the next listing tells the same of snapshots and locks
	costly   consequence = "costly"   // done: what is added stays and takes room until its lock ends; the next listing tells of something foreign
	longer   consequence = "longer"   // done: the next listing tells that locks end later; it takes room until then
	lifted   consequence = "lifted"   // done: who does it may lift such locks; the next listing tells that they ended, or end soon
)

// Who may, by the permissions that docs/operations/permissions.md gives to each. Where nothing is prolonged in place an extender
// makes copies.
func mayWrite(site string, k sites.Kind, who sites.Who) bool {
	return who == sites.Owner || who == sites.Writer || who == sites.Locker || who == sites.Extender && site == "Azure" && k.Whole
}
func mayDelete(who sites.Who) bool { return who == sites.Owner || who == sites.Collector }

// inBounds: where rights end at a prefix. A SAS of Azure is for an account, a container or one blob (one of a directory takes
// a hierarchical namespace), and the fake of OSS knows one access key, which may do everything.
func inBounds(site string) bool { return ofS3(site) || site == "GCS" }

// ofS3: what speaks S3. Real accounts are of AWS.
func ofS3(site string) bool { return site == "MinIO" || site == "Ceph" || site == "AWS" }

// attacks are all: to overwrite, hide and destroy what is there; to reach what is another's; to take locks off. What takes
// locks off where they are loose comes last.
var attacks = []attack{
	{
		name: "overwrite", on: eachObject,
		do: func(a attacker, v stores.RawVersion) error {
			return a.raw.Overwrite(a.t.Context(), v.Key, []byte("pay"))
		},
		must: func(site string, k sites.Kind, who sites.Who) consequence {
			if k.Whole || !mayWrite(site, k, who) {
				return denied
			}
			return "versions"
		},
	},
	{
		name: "delete by name", on: eachObject,
		do: func(a attacker, v stores.RawVersion) error { return a.raw.Hide(a.t.Context(), v.Key) },
		must: func(_ string, k sites.Kind, who sites.Who) consequence {
			if !k.Markers || !mayDelete(who) {
				return denied
			}
			return "marker"
		},
	},
	{
		name: "delete the version", on: eachObject,
		do:   func(a attacker, v stores.RawVersion) error { return a.raw.Delete(a.t.Context(), v) },
		must: func(string, sites.Kind, sites.Who) consequence { return denied },
	},
	{
		name: "read below another prefix", on: anotherPrefix,
		do: func(a attacker, v stores.RawVersion) error {
			_, err := a.raw.Read(a.t.Context(), v)
			return err
		},
		must: elsewhere(func(string, sites.Kind, sites.Who) consequence { return harmless }),
	},
	{
		name: "write below another prefix", on: anotherPrefix,
		do: func(a attacker, v stores.RawVersion) error {
			return a.raw.Overwrite(a.t.Context(), fmt.Sprintf("%s-pay-%d", v.Key, a.who), []byte("pay"))
		},
		must: elsewhere(func(site string, k sites.Kind, who sites.Who) consequence {
			if mayWrite(site, k, who) {
				return harmless
			}
			return denied
		}),
	},
	{
		name: "delete by name below another prefix", on: anotherPrefix,
		do:   func(a attacker, v stores.RawVersion) error { return a.raw.Hide(a.t.Context(), v.Key) },
		must: elsewhere(func(string, sites.Kind, sites.Who) consequence { return denied }),
	},
	{
		name: "delete the version below another prefix", on: anotherPrefix,
		do:   func(a attacker, v stores.RawVersion) error { return a.raw.Delete(a.t.Context(), v) },
		must: elsewhere(func(string, sites.Kind, sites.Who) consequence { return denied }),
	},
	{
		name: "weaken the mode of the lock", on: eachObject,
		do: func(a attacker, v stores.RawVersion) error { return a.raw.(stores.Weakener).Weaken(a.t.Context(), v) },
		must: func(site string, k sites.Kind, _ sites.Who) consequence {
			if site == "GCS" || site == "OSS" || k == sites.Container || k.Loose {
				return untried // the lock is the bucket's, or there is no weaker mode
			}
			return denied
		},
		twin: map[string]sites.Kind{"MinIO": sites.Lockable, "Ceph": sites.Lockable, "Azure": sites.Level},
	},
	{
		name: "shorten the lock", on: eachObject,
		do: func(a attacker, v stores.RawVersion) error { return a.raw.(stores.Shortener).Shorten(a.t.Context(), v) },
		must: func(site string, k sites.Kind, who sites.Who) consequence {
			switch {
			case site == "OSS":
				return untried // a day is the shortest period that there is
			case k == sites.LoosePolicy && who == sites.Owner:
				return lifted
			case k == sites.Governance || k == sites.LevelLocked || k == sites.ObjectGovernance:
				// Azure knows one right to set policies of versions, whether that prolongs or, while they are not locked,
				// shortens; MinIO asks for no other one in governance mode.
				if who == sites.Owner || site != "AWS" && (who == sites.Extender || who == sites.Locker) {
					return lifted
				}
			}
			return denied
		},
		twin: map[string]sites.Kind{"MinIO": sites.Lockable, "Ceph": sites.Lockable, "Azure": sites.Level, "GCS": sites.LoosePolicy},
	},
	{
		name: "lock for longer than the cap", on: eachObject,
		do: func(a attacker, v stores.RawVersion) error {
			return a.raw.(stores.Locker).Prolong(a.t.Context(), v, time.Now().Add(beyondCaps))
		},
		must: func(site string, k sites.Kind, who sites.Who) consequence {
			if site == "Ceph" && (who == sites.Extender || who == sites.Locker) {
				return longer // it knows no cap
			}
			return capped(site, k, who)
		},
		twin: map[string]sites.Kind{"MinIO": sites.Compliance, "Ceph": sites.Compliance},
	},
	{
		name: "write what is locked for longer than the cap", on: eachObject,
		do: func(a attacker, v stores.RawVersion) error {
			return a.raw.(stores.Locker).PutLocked(a.t.Context(), fmt.Sprintf("%s-long-%d", v.Key, a.who), []byte("pay"), time.Now().Add(beyondCaps))
		},
		must: func(site string, k sites.Kind, who sites.Who) consequence {
			// Ceph asks for the right to write alone. MinIO asks for the one to lock as well, and does not tell a policy how long.
			if site == "Ceph" && mayWrite(site, k, who) && who != sites.Owner || site == "MinIO" && who == sites.Locker {
				return costly
			}
			return capped(site, k, who)
		},
		twin: map[string]sites.Kind{"MinIO": sites.Lockable, "Ceph": sites.Lockable},
	},
	{
		name: "delete the container with all that is in it", on: wholeBucket,
		do: func(a attacker, _ stores.RawVersion) error {
			return a.site.(sites.Remover).Remove(a.t.Context(), a.bucket, a.who)
		},
		must: func(site string, _ sites.Kind, _ sites.Who) consequence {
			if site != "Azure" {
				return untried // others delete none that is not empty
			}
			return denied
		},
		twin: map[string]sites.Kind{"Azure": sites.Plain},
	},
	{
		name: "take the lock of the bucket off", on: wholeBucket,
		do: func(a attacker, _ stores.RawVersion) error {
			return a.site.(sites.Unlocker).Unlock(a.t.Context(), a.bucket, a.who)
		},
		must: func(site string, k sites.Kind, who sites.Who) consequence {
			switch {
			case who != sites.Owner:
				return denied
			case ofS3(site) || k == sites.LevelLocked:
				return harmless // the locks of versions stay, only what comes gets none
			case k.Loose:
				return lifted
			}
			return denied
		},
		twin: map[string]sites.Kind{"MinIO": sites.Governance, "Ceph": sites.Lockable, "GCS": sites.LoosePolicy, "Azure": sites.LooseContainer, "OSS": sites.Begun},
	},
}

// beyondCaps is longer than any cap of examples/policies.
const beyondCaps = 100 * 24 * time.Hour

// capped is the consequence of a lock that would last for longer than a role may set, and cost until then.
func capped(site string, _ sites.Kind, who sites.Who) consequence {
	if who == sites.Owner || !ofS3(site) {
		return untried // there is no cap
	}
	return denied
}

// lockEach are the flags by which whoever writes locks each object, in the kinds of bucket where he is to.
func lockEach(k sites.Kind, period time.Duration) []string {
	if k.Each == "" {
		return nil
	}
	return []string{"--object-lock-period=" + period.String(), "--object-lock-mode=" + k.Each}
}

// elsewhere is the consequence of what is done below another prefix, by those who have no business there: refused for want of
// rights where rights can end at a prefix. Where they cannot, the locks there are what keeps backups from the others.
func elsewhere(open func(string, sites.Kind, sites.Who) consequence) func(string, sites.Kind, sites.Who) consequence {
	return func(site string, k sites.Kind, who sites.Who) consequence {
		switch {
		case who == sites.Owner:
			return untried // whose the bucket is
		case inBounds(site):
			return denied
		}
		return open(site, k, who)
	}
}

// roles are those whose credentials lie in the cluster, and an owner who may do more than those. OSS has him alone.
func roles(s sites.Site, k sites.Kind) []sites.Who {
	if s.Name() == "OSS" {
		return []sites.Who{sites.Owner}
	}
	writer := sites.Writer
	if k.Each != "" {
		writer = sites.Locker
	}
	all := []sites.Who{writer, sites.Extender, sites.Excluder, sites.Collector, sites.Owner}
	if real, is := s.(*realSite); is {
		all = slices.DeleteFunc(all, func(who sites.Who) bool { _, given := real.ways[who]; return !given })
	}
	return all
}

var named = map[sites.Who]string{sites.Writer: "the writer", sites.Locker: "the writer who locks", sites.Extender: "the extender", sites.Excluder: "the excluder", sites.Collector: "the collector", sites.Owner: "the owner"}

// another is the key of what is another cluster's.
const another = "ns--uid/another/v2/Full-00000000-00000100-1700000000.gz"

// TestAttacksOnALockedBackupFailOrChangeNothingThatARestoreReads makes every attack on every object, as each role, in every
// kind of bucket that locks. With PROVIDERS in the environment real accounts are attacked instead, see realSiteOf.
func TestAttacksOnALockedBackupFailOrChangeNothingThatARestoreReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 131, 60)
	w.useLocal(t.TempDir())
	last := w.backup(100)
	if os.Getenv("PROVIDERS") != "" {
		w.attackAccounts(t, last)
		return
	}
	origin := w.place
	for name, s := range attacked(t) {
		kinds := s.Kinds()
		switch name {
		case "MinIO":
			kinds = append(kinds, sites.ObjectGovernance, sites.ObjectCompliance)
		case "Ceph":
			kinds = append(kinds, sites.ObjectCompliance)
		}
		for _, kind := range kinds {
			if !kind.Locks {
				continue
			}
			t.Run(name+", "+kind.Name, func(t *testing.T) {
				t.Parallel()
				on := *w
				on.t = t
				bucket := on.useBucket(s, kind, sites.Owner)
				if kind.Each != "" && name != "Ceph" { // whose owner cannot read what others wrote
					on.place = inSite(t, s, "", bucket, sites.Locker)
				}
				on.attackedByAll(origin, s, bucket, kind, last)
			})
		}
	}
}

// attackedByAll copies a backup into a bucket, makes every attack on it as everybody, and looks what is left.
func (w *world) attackedByAll(origin place, s sites.Site, bucket string, kind sites.Kind, last int64) {
	t, on := w.t, *w
	t.Helper()
	on.copyFrom(origin).succeeds("copy", lockEach(kind, 24*time.Hour)...)
	owner := handsOn(t, s, bucket, sites.Owner)
	ours := owner.versions("")
	owner.put(another, []byte("another cluster's"))
	if kind.Each != "" {
		owner.must(owner.raw.(stores.Locker).Prolong(t.Context(), owner.versions(another)[0], time.Now().Add(24*time.Hour)))
	}
	before := owner.versions("")
	on.place = inSite(t, s, "", bucket, roles(s, kind)[0]) // as a member restores
	for _, who := range roles(s, kind) {
		for _, v := range ours {
			if _, err := handsOn(t, s, bucket, who).raw.Read(t.Context(), v); err != nil {
				t.Fatalf("%s reads nothing, so what is refused to him proves nothing: %v", named[who], err)
			}
		}
	}
	told := on.list()
	for _, a := range attacks {
		told = on.attacked(s, bucket, kind, a, ours, told)
	}
	on.unharmed(s, bucket, kind, before, last)
}

// attacked are all sites by their names, that of Azure twice: once with SAS, once with identities that have roles.
func attacked(t *testing.T) map[string]sites.Site {
	t.Helper()
	all := map[string]sites.Site{}
	for _, name := range sites.Names() {
		all[name] = fleet.Get(t, name)
		if byName, can := sites.ByIdentity(all[name]); can {
			all[name+" by identity"] = byName
		}
	}
	return all
}

// attacked has everybody make an attack, and holds the next listing against the one before, which was told.
func (w *world) attacked(s sites.Site, bucket string, kind sites.Kind, a attack, ours []stores.RawVersion, told list) list {
	t := w.t
	t.Helper()
	var wanted []consequence
	for _, who := range roles(s, kind) {
		want := a.must(s.Name(), kind, who)
		if want == untried {
			continue
		}
		wanted = append(wanted, want)
		by := attacker{handsOn(t, s, bucket, who), s, bucket, who}
		for _, v := range a.targets(by, ours) {
			if err := a.do(by, v); (err != nil) != (want == denied) {
				t.Errorf("%s tries to %s: %s: %v, want it %s", named[who], a.name, v.Key, err, want)
				break
			}
		}
	}
	if len(wanted) == 0 {
		return told
	}
	l := w.list()
	traces := false
	for _, code := range wanted {
		if code == denied || code == harmless || code == longer || code == lifted {
			continue
		}
		traces = true
		if code == costly {
			if !l.found("foreign", "-long-") {
				t.Errorf("%s: there is no finding of something foreign among\n%+v", a.name, l.Findings)
			}
			continue
		}
		for _, snap := range slices.Concat(l.all("Full"), l.all("Incr")) {
			if !l.found(string(code), snap.Name) {
				t.Errorf("%s: of %s there is no finding %s among\n%+v", a.name, snap.Name, code, l.Findings)
			}
		}
	}
	if diff := cmp.Diff(told.Findings, l.Findings); diff != "" && !traces {
		t.Errorf("%s: nothing happened to the backup, and the findings change (-before +after):\n%s", a.name, diff)
	}
	if diff := cmp.Diff(told.Lineages, l.Lineages); (diff != "") != (slices.Contains(wanted, lifted) || slices.Contains(wanted, longer)) {
		t.Errorf("%s: want %v, and what is told of snapshots and locks changes (-before +after):\n%s", a.name, wanted, diff)
	}
	return l
}

// targets are the versions that an attack is tried on.
func (a attack) targets(by attacker, ours []stores.RawVersion) []stores.RawVersion {
	switch a.on {
	case anotherPrefix:
		return handsOn(by.t, by.site, by.bucket, sites.Owner).versions(another)[:1]
	case wholeBucket:
		return make([]stores.RawVersion, 1)
	}
	return ours
}

// unharmed holds the bucket against what it was before, and restores.
func (w *world) unharmed(s sites.Site, bucket string, kind sites.Kind, before []stores.RawVersion, last int64) {
	t := w.t
	t.Helper()
	h := handsOn(t, s, bucket, sites.Owner)
	for _, v := range before {
		if !kind.Loose && h.raw.Delete(t.Context(), v) == nil {
			t.Errorf("after all that %+v can be deleted", v)
		}
		v.Current = false
		if !slices.ContainsFunc(h.versions(v.Key), func(x stores.RawVersion) bool { x.Current = false; return x == v }) {
			t.Errorf("%+v is gone", v)
		}
	}
	dir, err := w.restore()
	if err != nil {
		t.Fatal(err)
	}
	w.check(dir, last)
	w.verifies()
}

// TestTheSameAttacksSucceedWhereNothingProtects is the proof that the table can fail, and
// that a backup without protection is never restored wrongly.
func TestTheSameAttacksSucceedWhereNothingProtects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 132, 60)
	w.useLocal(t.TempDir())
	w.backup(60)
	origin := w.place
	for _, name := range sites.Names() {
		for _, a := range attacks {
			kind, has := a.twin[name]
			if a.twin != nil && !has {
				continue
			}
			if !has {
				kind = sites.Plain
			}
			t.Run(a.name+", "+name, func(t *testing.T) {
				t.Parallel()
				s := fleet.Get(t, name)
				on := *w
				on.t = t
				bucket := on.useBucket(s, kind, sites.Owner)
				on.copyFrom(origin).succeeds("copy")
				by := attacker{handsOn(t, s, bucket, sites.Owner), s, bucket, sites.Owner}
				ours := by.versions("")
				by.put(another, []byte("another cluster's"))
				for _, v := range a.targets(by, ours) {
					if err := a.do(by, v); err != nil {
						t.Errorf("%s: %v", v.Key, err)
					}
				}
				switch {
				case strings.HasPrefix(a.name, "delete the container"):
					on.fails(5, "list")
				case a.on == wholeBucket:
					by.put("later", []byte("without a lock"))
					by.destroy("later", true)
				case a.on == eachObject && !has:
					line := on.fails(4, "restore", slices.Concat([]string{"--data-dir=" + t.TempDir() + "/restored"}, alone)...)
					if a.name == "overwrite" && len(on.list().Findings) == 0 {
						t.Errorf("everything is overwritten and nothing is found: %s", line)
					}
				}
			})
		}
	}
}
