package desired

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// elsewhere are the fields, or what their names begin with, that no object is made from, and what reads them.
var elsewhere = map[string]string{
	"backup.compactionResources":         "the condition FieldsWithoutEffect",
	"backup.snapshotCompaction":          "the condition FieldsWithoutEffect",
	"backup.image":                       "ImagesFor, by which callers give it as Images",
	"etcd.image":                         "ImagesFor, by which callers give it as Images",
	"etcd.peerUrlTls.clientTLSSecretRef": "the condition FieldsWithoutEffect",
	"hibernation":                        "package hibernation",
	"backup.store.roles":                 "the CronJobs of tasks",
}

// TestEveryFieldOfASpecificationChangesAnObject gives each field another value, and what is made must differ: no field is taken and ignored.
func TestEveryFieldOfASpecificationChangesAnObject(t *testing.T) {
	made := func(e *druidv1alpha1.Etcd) string {
		set, err := Objects(input(e))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		for _, o := range set.InOrder() {
			text, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(text)
		}
		return b.String()
	}
	e := etcd(func(e *druidv1alpha1.Etcd) {
		withEverything(e)
		fill(reflect.ValueOf(&e.Spec).Elem())
		e.Spec.Backup.Store.Immutability.RetentionType = druidv1alpha1.RetentionObject
		e.Spec.VolumeClaimTemplate = ptr("main-claim")
	})
	before := made(e)
	unused := maps.Clone(elsewhere)
	leaves(reflect.ValueOf(&e.Spec).Elem(), "", func(path string, v reflect.Value) {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		another(t, path, v)
		differs := made(e) != before
		v.Set(was)
		var where string
		for field := range elsewhere {
			if path == field || strings.HasPrefix(path, field+".") {
				where = field
				delete(unused, field)
			}
		}
		switch {
		case !differs && where == "":
			t.Errorf("spec.%s changes nothing", path)
		case differs && where != "":
			t.Errorf("spec.%s changes an object, and is said to be for %s only", path, elsewhere[where])
		}
	})
	if after := made(e); after != before {
		t.Fatal("a value was not put back")
	}
	for _, field := range slices.Sorted(maps.Keys(unused)) {
		t.Errorf("there is no field %s", field)
	}
}

// ours: what is inside is given other values one by one.
func ours(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && strings.HasSuffix(t.PkgPath(), "/api/v1alpha1")
}

// fill makes what is not there.
func fill(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem())
	case v.Kind() == reflect.Slice && ours(v.Type().Elem()):
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		fill(v.Index(0))
	case ours(v.Type()):
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	}
}

// leaves visits what has no fields of ours.
func leaves(v reflect.Value, path string, visit func(string, reflect.Value)) {
	switch {
	case v.Kind() == reflect.Pointer:
		leaves(v.Elem(), path, visit)
	case v.Kind() == reflect.Slice && ours(v.Type().Elem()):
		leaves(v.Index(0), path, visit)
	case ours(v.Type()):
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			leaves(v.Field(i), strings.Trim(path+"."+name, "."), visit)
		}
	default:
		visit(path, v)
	}
}

// another gives a field another value.
func another(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch of := v.Interface().(type) {
	case metav1.Duration:
		v.Set(reflect.ValueOf(metav1.Duration{Duration: of.Duration + 77*time.Second}))
		return
	case resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse("777Mi")))
		return
	case corev1.SecretReference:
		v.Set(reflect.ValueOf(corev1.SecretReference{Name: of.Name + "-other"}))
		return
	case corev1.ResourceRequirements:
		v.Set(reflect.ValueOf(corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7")}}))
		return
	case corev1.Affinity:
		v.Set(reflect.ValueOf(corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}))
		return
	case []corev1.TopologySpreadConstraint:
		v.Set(reflect.ValueOf([]corev1.TopologySpreadConstraint{{MaxSkew: 7}}))
		return
	case metav1.LabelSelector:
		v.Set(reflect.ValueOf(metav1.LabelSelector{MatchLabels: map[string]string{"of": "nobody"}}))
		return
	case druidv1alpha1.StorageProvider:
		v.SetString("gcp")
		return
	case map[string]string:
		m := maps.Clone(of)
		if m == nil {
			m = map[string]string{}
		}
		m["another"] = "one"
		v.Set(reflect.ValueOf(m))
		return
	case []string:
		v.Set(reflect.ValueOf(append(slices.Clone(of), "https://another.example.org:2380")))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 7)
	case reflect.String:
		v.SetString(v.String() + "x")
	default:
		t.Fatalf("spec.%s is a %s, of which no other value is known", path, v.Type())
	}
}
