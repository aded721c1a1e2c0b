package operator

import (
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	webhookserver "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"druid.internal/druid/internal/operator/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

// elsewhere are the settings, or what their names begin with, with which nothing is set up here, and the tests of what they do.
var elsewhere = map[string]string{
	"Controllers.Compaction": "they have no effect, which TestNoticesAreGivenOfWhatWasSaidAlone has told",
	"Controllers.Secret":     "they have no effect, which TestNoticesAreGivenOfWhatWasSaidAlone has told",
	"FeatureGates":           "none can be switched: TestAGateIsSwitchedUnlessItIsUnknownOrLocked",
	"Images.All":             "the other images are this one unless told otherwise: TestImagesThatAreNotNamedAreTheOneOfTheVersion",
	"Logging":                "the program makes the log: TestLinesOfTheLibrariesHaveOurKeys",
}

// everything is switched on, so that each setting has somebody to tell.
func everything(change func(*config.Config)) config.Config {
	c := config.Defaults("v1")
	c.LeaderElection.Enabled, c.LeaderElection.ResourceNamespace = true, "garden"
	c.Server.Profiling.Enabled = true
	c.Server.Webhooks.ServerCertDir = "" // the operator makes the certificates
	c.Controllers.EtcdCopyBackupsTask.Enabled = true
	c.Webhooks.EtcdComponentProtection.Enabled = true
	c.Images.Wrapper, c.Images.Sidecar, c.Images.Init = "wrapper:1", "sidecar:1", "init:1"
	change(&c)
	return c
}

// TestEverySettingChangesWhatIsSetUp gives each setting another value. What the manager, the controllers and the webhook are set up
// with must differ, and where it does is compared with a file: no setting is read and ignored, or given to somebody else.
func TestEverySettingChangesWhatIsSetUp(t *testing.T) {
	places := map[string]map[string]bool{}
	var order []string
	for _, c := range []config.Config{
		everything(func(*config.Config) {}),
		everything(func(c *config.Config) { // of which one takes the place of the other
			c.Webhooks.EtcdComponentProtection.ServiceAccountInfo = config.ServiceAccountInfo{Name: "druid", Namespace: "garden"}
		}),
	} {
		before, _ := setUp(t, c)
		leaves(reflect.ValueOf(&c).Elem(), "", func(path string, v reflect.Value) {
			was := reflect.New(v.Type()).Elem()
			was.Set(v)
			another(t, path, v)
			after, _ := setUp(t, c)
			v.Set(was)
			if places[path] == nil {
				places[path] = map[string]bool{}
				order = append(order, path)
			}
			for _, place := range differing(before, after) {
				places[path][place] = true
			}
		})
		if again, _ := setUp(t, c); !maps.Equal(again, before) {
			t.Fatalf("the same configuration is set up in another way (-want +got):\n%s", cmp.Diff(before, again))
		}
	}

	var text strings.Builder
	unused := maps.Clone(elsewhere)
	for _, path := range order {
		var where string
		for setting := range elsewhere {
			if path == setting || strings.HasPrefix(path, setting+".") {
				where = setting
				delete(unused, setting)
			}
		}
		switch all := slices.Sorted(maps.Keys(places[path])); {
		case len(all) == 0 && where == "":
			t.Errorf("%s changes nothing", path)
		case len(all) > 0 && where != "":
			t.Errorf("%s changes %v, and is said to be tested elsewhere alone: %s", path, all, elsewhere[where])
		case len(all) > 0:
			fmt.Fprintf(&text, "%s: %s\n", path, strings.Join(all, ", "))
		}
	}
	for _, setting := range slices.Sorted(maps.Keys(unused)) {
		t.Errorf("there is no setting %s", setting)
	}
	golden := filepath.Join("testdata", "settings.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), text.String()); d != "" {
		t.Errorf("where settings go (-want +got):\n%s", d)
	}
}

func TestAControllerThatIsSwitchedOffIsNotSetUp(t *testing.T) {
	const etcd, copies, tasks, ops = "etcd", "etcdcopybackupstask", "etcdoperatortask", "etcdopstask"
	for phrase, c := range map[string]struct {
		change func(*config.Controllers)
		want   []string
	}{
		"all":                     {func(*config.Controllers) {}, []string{etcd, copies, tasks, ops}},
		"copies are off":          {func(c *config.Controllers) { c.EtcdCopyBackupsTask.Enabled = false }, []string{etcd, tasks, ops}},
		"nobody is there to copy": {func(c *config.Controllers) { c.EtcdCopyBackupsTask.ConcurrentSyncs = 0 }, []string{etcd, tasks, ops}},
		"tasks are off":           {func(c *config.Controllers) { c.EtcdOpsTask.Enabled = false }, []string{etcd, copies}},
		"compaction is on":        {func(c *config.Controllers) { c.Compaction.Enabled = true }, []string{etcd, copies, tasks, ops}},
	} {
		_, controllers := setUp(t, everything(func(to *config.Config) { c.change(&to.Controllers) }))
		if d := cmp.Diff(c.want, controllers); d != "" {
			t.Errorf("%s (-want +got):\n%s", phrase, d)
		}
	}
}

// recording is a manager that keeps what it is to run.
type recording struct {
	manager.Manager
	added []manager.Runnable
}

func (r *recording) Add(one manager.Runnable) error {
	r.added = append(r.added, one)
	return nil
}

// setUp sets everything up and starts nothing. It returns what can be compared of all that was given, by its place, and the names of
// the controllers.
func setUp(t *testing.T, c config.Config) (given map[string]string, controllers []string) {
	t.Helper()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	former := ctrlmetrics.Registry
	ctrlmetrics.Registry = prometheus.NewRegistry() // it takes each metric once
	defer func() { ctrlmetrics.Registry = former }()
	log := slog.New(slog.DiscardHandler)
	o := options(scheme, c, log)
	used := o
	used.LeaderElection, used.Metrics.BindAddress, used.HealthProbeBindAddress, used.PprofBindAddress = false, "0", "", "" // ports, and a Lease, are of no use here
	again := true
	used.Controller.SkipNameValidation = &again
	mgr, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, used)
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{Manager: mgr}
	if err := Setup(r, c, log); err != nil {
		t.Fatal(err)
	}
	w := walk{given: map[string]string{}, met: map[met]bool{}}
	w.read("connection", reflect.ValueOf(connection(&rest.Config{}, c.ClientConnection)))
	w.read("manager", reflect.ValueOf(o))
	for _, one := range r.added {
		v := reflect.Indirect(reflect.ValueOf(one))
		name := v.Type().String()
		if v.Type().PkgPath() == controllerPackage {
			name = v.FieldByName("Name").String()
			controllers = append(controllers, name)
		}
		w.given[name] = "set up"
		w.read(name, v)
	}
	return w.given, controllers
}

// controllerPackage is that of the controllers that are added to a manager.
const controllerPackage = "sigs.k8s.io/controller-runtime/pkg/internal/controller"

// walk reads by reflection what setting up has left in fields that nobody else reads: they need not be exported for a test.
type walk struct {
	given map[string]string
	met   map[met]bool
}

type met struct {
	of reflect.Type
	at uintptr
}

// foreign are types of others with fields that are configured.
var foreign = []reflect.Type{
	reflect.TypeFor[rest.Config](), reflect.TypeFor[rest.ContentConfig](), reflect.TypeFor[manager.Options](), reflect.TypeFor[metricsserver.Options](),
	reflect.TypeFor[webhookserver.DefaultServer](), reflect.TypeFor[webhookserver.Options](), reflect.TypeFor[admission.Webhook](), reflect.TypeFor[types.NamespacedName](),
}

func (w walk) read(at string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return
		}
		if v.Kind() == reflect.Pointer {
			here := met{v.Type(), v.Pointer()}
			if w.met[here] {
				return
			}
			w.met[here] = true
		}
		w.read(at, v.Elem())
	case reflect.Struct:
		of := v.Type()
		if !strings.HasPrefix(of.PkgPath(), "druid.internal/druid/") && of.PkgPath() != controllerPackage && !slices.Contains(foreign, of) {
			return
		}
		for i := range v.NumField() {
			w.read(at+"."+of.Field(i).Name, v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			w.read(fmt.Sprintf("%s[%d]", at, i), v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if key.Kind() == reflect.String {
				w.read(at+"["+key.String()+"]", v.MapIndex(key))
			}
		}
	case reflect.Int64:
		w.given[at] = fmt.Sprint(v.Int())
		if v.Type() == reflect.TypeFor[time.Duration]() {
			w.given[at] = time.Duration(v.Int()).String()
		}
	case reflect.Bool, reflect.Int, reflect.Int32, reflect.Float32, reflect.Float64, reflect.String:
		w.given[at] = fmt.Sprint(v)
	}
}

// differing are the places where two differ. Of what one has not got at all nothing is told but that.
func differing(a, b map[string]string) (places []string) {
	both := maps.Clone(a)
	maps.Copy(both, b)
	for _, place := range slices.Sorted(maps.Keys(both)) {
		in := func(whole string) bool { return strings.HasPrefix(place, whole+".") }
		if was, is := a[place], b[place]; was != is && !slices.ContainsFunc(places, in) {
			places = append(places, place)
		}
	}
	return places
}

// leaves visits the settings, by the names of their fields.
func leaves(v reflect.Value, path string, visit func(path string, v reflect.Value)) {
	if v.Kind() != reflect.Struct {
		visit(path, v)
		return
	}
	for i := range v.NumField() {
		below := path
		if field := v.Type().Field(i); !field.Anonymous {
			below = strings.TrimPrefix(path+"."+field.Name, ".")
		}
		leaves(v.Field(i), below, visit)
	}
}

// another gives a setting another value.
func another(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 7)
	case reflect.Float64:
		v.SetFloat(v.Float() + 7)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Slice:
		v.Set(reflect.ValueOf([]string{"another"}))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]bool{"Another": true}))
	default:
		t.Fatalf("%s is a %s, of which no other value is known", path, v.Type())
	}
}
