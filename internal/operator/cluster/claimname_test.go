package cluster

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

// A StatefulSet of the original may have had another claim template, and is deleted while it is made anew around its pods: with the
// template of the specification each pod that is replaced would get an empty volume.
func TestVolumeClaimsKeepTheirNameWithoutAStatefulSet(t *testing.T) {
	claim := func(name string, labels map[string]string) client.Object {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID(name), Labels: labels}}
	}
	for phrase, c := range map[string]struct {
		pods   string   // the claims that they have mounted begin with it; empty: there are none
		claims []string // there are
		theirs bool     // they are no claims of ours
		first  bool     // nobody ever looked at the Etcd
		older  bool     // they were there before it
		want   string
	}{
		"its pods have others":                     {"data", []string{"data-main-0", "data-main-1", "data-main-2"}, false, false, false, "data"},
		"its pods have those of the specification": {"main", []string{"main-main-0", "data-main-0"}, false, false, false, "main"},
		"there are no pods":                        {"", []string{"data-main-0", "data-main-1", "data-main-2"}, false, false, false, "data"},
		"there are no pods, and both":              {"", []string{"data-main-0", "main-main-0"}, false, false, false, "main"},
		"of a former Etcd that was looked at":      {"", []string{"data-main-0"}, false, false, true, "main"},
		"of a former Etcd":                         {"", []string{"data-main-0"}, false, true, false, "main"},
		"of somebody":                              {"", []string{"data-main-0"}, true, false, false, "main"},
		"of another Etcd":                          {"", []string{"data-main-shop-0"}, false, false, false, "main"},
		"of no ordinal":                            {"", []string{"data-main-x", "uploads"}, false, false, false, "main"},
		"nothing is there":                         {"", nil, false, false, false, "main"},
	} {
		t.Run(phrase, func(t *testing.T) {
			e := newEtcd(3, func(e *druidv1alpha1.Etcd) {
				if !c.first {
					e.Status.ObservedGeneration = ptr(int64(1))
				}
			})
			objects := []client.Object{e}
			if c.pods != "" {
				for i := range 3 {
					objects = append(objects, &corev1.Pod{
						ObjectMeta: metav1.ObjectMeta{Name: e.PodName(i), Namespace: e.Namespace, UID: types.UID(fmt.Sprint("pod-", i)), Labels: e.PodLabels()},
						Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: c.pods, VolumeSource: corev1.VolumeSource{
							PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.pods + "-" + e.PodName(i)}}}}},
					})
				}
			}
			for _, name := range c.claims {
				labels := e.MemberPodLabels()
				if c.theirs {
					labels = map[string]string{druidv1alpha1.LabelPartOf: e.Name}
				}
				o := claim(name, labels)
				if o.SetCreationTimestamp(ago(time.Hour)); c.older {
					o.SetCreationTimestamp(ago(48 * time.Hour))
				}
				objects = append(objects, o)
			}
			r, _ := newReconciler(t, objects...)
			o, err := r.observe(e)
			if err != nil {
				t.Fatal(err)
			}
			o.NewToken, o.ClusterUID = []byte("token"), "k8s"
			made := false
			for _, object := range mustDecide(t, o, testSettings).Objects {
				if s, is := object.(*appsv1.StatefulSet); is {
					made = true
					if got := s.Spec.VolumeClaimTemplates[0].Name; got != c.want {
						t.Errorf("the claims are called %s, want %s", got, c.want)
					}
				}
			}
			if !made {
				t.Error("no StatefulSet is made")
			}
			if n := len(o.Claims); c.want == "data" && n != len(c.claims) {
				t.Errorf("%d of %v are known", n, c.claims)
			}
		})
	}
}
