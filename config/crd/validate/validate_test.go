package validate

import (
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"druid.internal/druid/config/crd/crdtest"
)

// load is Load, once per definition: rules take a second to compile.
func load(t *testing.T, plural string) *Definition {
	t.Helper()
	loaded.Lock()
	defer loaded.Unlock()
	if plural == "" {
		plural = "etcds"
	}
	if d := loaded.by[plural]; d != nil {
		return d
	}
	d, err := Load(plural)
	if err != nil {
		t.Fatal(err)
	}
	loaded.by[plural] = d
	return d
}

var loaded = struct {
	sync.Mutex
	by map[string]*Definition
}{by: map[string]*Definition{}}

func TestAnAPIServerTakesTheDefinitions(t *testing.T) {
	for _, plural := range []string{"etcds", "etcdmembers", "etcdcopybackupstasks", "etcdoperatortasks", "etcdopstasks"} {
		d := load(t, plural)
		o := crdtest.Minimal(plural)
		if removed := d.Default(o); len(removed) > 0 {
			t.Errorf("of the minimal object of %s it removes %q", plural, removed)
		}
		if errs := d.Validate(o, nil); len(errs) > 0 {
			t.Errorf("the minimal object of %s is refused: %v", plural, errs.ToAggregate())
		}
	}
}

func TestWhatIsWrongIsRefusedWithItsFieldAndRemedy(t *testing.T) {
	for _, c := range crdtest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			d := load(t, c.Plural)
			old, object := c.Objects()
			if old != nil {
				if removed := d.Default(old); len(removed) > 0 {
					t.Fatalf("the case sets fields that there are not: %q", removed)
				}
				if errs := d.Validate(old, nil); len(errs) > 0 {
					t.Fatalf("what is there before is refused itself: %v", errs.ToAggregate())
				}
			}
			if removed := d.Default(object); len(removed) > 0 {
				t.Fatalf("the case sets fields that there are not: %q", removed)
			}
			errs := d.Validate(object, old)
			if c.Says == "" {
				if len(errs) > 0 {
					t.Errorf("it is refused: %v", errs.ToAggregate())
				}
				return
			}
			if !refused(errs, c) {
				t.Errorf("it is refused with %v, want %s: ... %s", errs.ToAggregate(), c.Field, c.Says)
			}
		})
	}
}

// refused: one of the errors names the field and says what is wanted.
func refused(errs field.ErrorList, c crdtest.Case) bool {
	for _, err := range errs {
		named := err.Field == c.Field || (strings.HasPrefix(c.Field, "metadata.") && strings.Contains(err.Detail, c.Field+":"))
		if named && strings.Contains(err.Error(), c.Says) {
			return true
		}
	}
	return false
}

func TestManifestsOfTheOriginalAreTakenAsTheyAre(t *testing.T) {
	all, err := crdtest.Samples()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 6 {
		t.Fatalf("there are %d samples", len(all))
	}
	for name, object := range all {
		t.Run(name, func(t *testing.T) {
			d := load(t, strings.ToLower(object["kind"].(string))+"s")
			if removed := d.Default(object); len(removed) > 0 {
				t.Errorf("fields are dropped in silence: %q", removed)
			}
			if errs := d.Validate(object, nil); len(errs) > 0 {
				t.Errorf("refused: %v", errs.ToAggregate())
			}
		})
	}
}

// A cluster of the original may have what we refuse in new ones. It must stay manageable: labels,
// finalizers, the status and other fields of the specification can be written, so that it can be
// repaired.
func TestWhatIsThereAlreadyCanStillBeWritten(t *testing.T) {
	d := load(t, "etcds")
	for name, before := range map[string]crdtest.Set{
		"a prefix that leads upwards": {"spec.backup.store": `{container: bucket, prefix: "a/../b", provider: aws}`},
		"an even number of members":   {"spec.replicas": 2},
		"a name that is too long":     {"metadata.name": strings.Repeat("a", 60)},
		"a name with a dot":           {"metadata.name": "etcd.main"},
		"a store without a provider":  {"spec.backup.store": `{prefix: a}`},
		"an unreadable schedule":      {"spec.backup.fullSnapshotSchedule": "often"},
		"a shared port":               {"spec.backup.port": 2379},
		"TLS without a client's":      {"spec.etcd.clientUrlTls": `{tlsCASecretRef: {name: ca}, serverTLSSecretRef: {name: server}}`},
		"deltas rarer than collected": {"spec.backup.deltaSnapshotPeriod": "13h"},
		"URLs of a stranger":          {"spec.etcd.additionalAdvertisePeerURLs": `[{memberName: other-0, urls: ["http://a:2380"]}]`},
		"URLs beyond the cluster":     {"spec.etcd.additionalAdvertisePeerURLs": `[{memberName: etcd-main-7, urls: ["http://a:2380"]}]`},
		"an own name outside":         {"spec.etcd.bootstrapWithExistingCluster": `{members: [{name: etcd-main-0, peerUrls: ["http://b:2380"]}], clientEndpoints: ["http://b:2379"]}`},
	} {
		for what, change := range map[string]crdtest.Set{
			"a finalizer": {"metadata.finalizers": `["druid.gardener.cloud/etcd-druid"]`},
			"the status":  {"status.replicas": 2},
			"a label":     {"metadata.labels": `{a: b}`},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				old, object := crdtest.Case{Update: true, Before: before, Change: change}.Objects()
				d.Default(old)
				d.Default(object)
				if errs := d.Validate(old, nil); len(errs) == 0 {
					t.Fatal("it is not refused when it is made: the case shows nothing")
				}
				if errs := d.Validate(object, old); len(errs) > 0 {
					t.Errorf("refused: %v", errs.ToAggregate())
				}
			})
		}
	}
}

// A wrong path prints an empty cell, and no API server says anything.
func TestColumnsShowFieldsThatThereAre(t *testing.T) {
	conditions, err := os.ReadFile("../../../api/v1alpha1/condition.go")
	if err != nil {
		t.Fatal(err)
	}
	part := regexp.MustCompile(`^\.([a-zA-Z]+)(\[\?\(@\.(type)=="([A-Za-z]+)"\)\]|\[[0-9*]+\])?`)
	for _, plural := range []string{"etcds", "etcdmembers", "etcdcopybackupstasks", "etcdoperatortasks", "etcdopstasks"} {
		d := load(t, plural)
		columns := d.CRD.Spec.Versions[0].AdditionalPrinterColumns
		if len(columns) < 3 {
			t.Errorf("%s has %d columns", plural, len(columns))
		}
		for _, c := range columns {
			at, rest := d.structural, c.JSONPath
			for rest != "" && !strings.HasPrefix(rest, ".metadata.") {
				m := part.FindStringSubmatch(rest)
				if m == nil {
					t.Errorf("%s: column %s: %q cannot be read from %q on", plural, c.Name, c.JSONPath, rest)
					break
				}
				next, is := at.Properties[m[1]]
				if is && m[2] != "" && next.Items != nil {
					next = *next.Items
				}
				if !is || m[4] != "" && !strings.Contains(string(conditions), `= "`+m[4]+`"`) {
					t.Errorf("%s: column %s: there is no %s in %q", plural, c.Name, m[0], c.JSONPath)
					break
				}
				at, rest = &next, rest[len(m[0]):]
			}
		}
	}
}
