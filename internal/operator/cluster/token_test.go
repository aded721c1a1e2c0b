package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Without it nobody can ask the sidecars: nothing that depends on their word goes on.
func TestATokenThatIsDeletedWhilePodsRunIsMadeAnew(t *testing.T) {
	o := running(t, 3)
	now := testNow
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: o.Etcd.TokenSecretName(), Namespace: o.Etcd.Namespace, OwnerReferences: []metav1.OwnerReference{o.Etcd.OwnerReference()}},
		Data: map[string][]byte{"token": []byte("0123456789abcdef")}}
	r, c := newReconciler(t, o.Etcd, secret)
	r.now = func() time.Time { return now }
	made := func(asks bool, after time.Duration) bool {
		t.Helper()
		now, o.NewToken = now.Add(after), nil
		if err := r.token(context.Background(), o, asks); err != nil {
			t.Fatal(err)
		}
		return o.NewToken != nil
	}
	if made(false, 0) || made(true, time.Minute) {
		t.Fatal("another token is made though there is one")
	}
	if err := c.Delete(context.Background(), secret); err != nil {
		t.Fatal(err)
	}
	if made(false, tokenEvery) {
		t.Error("nobody is asked, and a minute later the Secret is looked for again")
	}
	if !made(true, 0) {
		t.Error("the sidecars are going to be asked, and the token for that is not made")
	}
	if !made(false, 2*tokenSeldom) {
		t.Error("nobody is asked, and the token is never made anew")
	}
}

// Many operators begin at once, and each would ask for as many Secrets as there are Etcds.
func TestAnOperatorThatBeginsTakesTheTokensOfRunningPodsForGranted(t *testing.T) {
	o := running(t, 3)
	r, _ := newReconciler(t, o.Etcd)
	if err := r.token(context.Background(), o, false); err != nil || o.NewToken != nil {
		t.Errorf("%v, token %q: it was looked for", err, o.NewToken)
	}
}

// The operator may not delete Secrets: that of a deleted Etcd goes a moment after it, when Kubernetes comes to it.
func TestTheTokenOfAFormerEtcdOfTheNameIsWaitedFor(t *testing.T) {
	e := newEtcd(1)
	former := e.OwnerReference()
	former.UID = "former"
	another := former
	another.Name = "other"
	for phrase, c := range map[string]struct {
		secret  metav1.ObjectMeta
		refused bool
	}{
		"it is the former Etcd's":   {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{former}}, false},
		"it is another Etcd's":      {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{another}}, true},
		"it is nobody's, and stays": {metav1.ObjectMeta{}, true},
		"somebody made it for us":   {metav1.ObjectMeta{Labels: e.SelectorLabels()}, true},
	} {
		t.Run(phrase, func(t *testing.T) {
			c.secret.Name, c.secret.Namespace = e.TokenSecretName(), e.Namespace
			r, cl := newReconciler(t, e, &corev1.Secret{ObjectMeta: c.secret}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "k8s"}})
			o := empty(e)
			// Of a new Etcd the Secret is tried before all else.
			if next, err := r.Reconcile(context.Background(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e)}); err != nil || next.RequeueAfter != togetherWithin {
				t.Errorf("it is there already, and the next look is in %s (%v)", next.RequeueAfter, err)
			}
			if now, err := r.observe(e); err != nil || len(now.Live) > 0 {
				t.Errorf("beside it there are %d objects (%v)", len(now.Live), err)
			}
			if now, err := reread(t, cl, e); err != nil || now.Status.LastOperation != nil || len(now.Status.LastErrors) > 0 {
				t.Errorf("what is to be expected is told as %+v, %+v (%v)", now.Status.LastOperation, now.Status.LastErrors, err)
			}
			o.NewToken = nil
			if err := r.token(context.Background(), o, false); err != nil {
				t.Fatal(err)
			}
			p := mustDecide(t, o, testSettings)
			if len(p.Objects) > 0 || p.Done() || !strings.Contains(p.Waits(), e.TokenSecretName()) {
				t.Errorf("objects that are made: %d; it waits %q", len(p.Objects), p.Waits())
			}
			again, err := r.next(o, p, outcome{})
			if refused := len(p.Refused) > 0; err != nil || refused != c.refused || (again.RequeueAfter > soon) != c.refused {
				t.Errorf("refused: %t %q, looked at again after %s (%v); want it to be refused: %t", refused, p.Refused, again.RequeueAfter, err, c.refused)
			}
			o = running(t, 1)
			if c.secret.Labels != nil { // the pods have it
				c.refused = false
			}
			if err := r.token(context.Background(), o, false); err != nil || o.TokenTaken != c.refused || o.TokenGoing != (len(c.secret.OwnerReferences) > 0 && !c.refused) {
				t.Errorf("when pods run and nobody is asked, it is taken: %t, goes: %t (%v)", o.TokenTaken, o.TokenGoing, err)
			}
		})
	}
}

// The sidecar of a member that starts ends with such a token, so its pod runs now and then, and is never ready.
func TestATokenThatSomebodyTookOutOrSpoiltIsMissed(t *testing.T) {
	for token, want := range map[string]string{
		"": "(no token; write at least one line)", " \n": "(no token; write at least one line)", "bogusbogus": "(line 1: a token of 10 bytes; it must have 16 to 4096)",
		"0123456789abcdef": "",
	} {
		o := running(t, 1)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: o.Etcd.TokenSecretName(), Namespace: o.Etcd.Namespace, Labels: o.Etcd.SelectorLabels(), OwnerReferences: []metav1.OwnerReference{o.Etcd.OwnerReference()}},
			Data: map[string][]byte{"token": []byte(token)}}
		r, _ := newReconciler(t, o.Etcd, secret)
		look := func() {
			t.Helper()
			if err := r.token(t.Context(), o, false); err != nil {
				t.Fatal(err)
			}
		}
		if look(); o.TokenFault != "" {
			t.Errorf("while all is well it was looked for: %s", o.TokenFault)
		}
		o.Pods[0].Spec.NodeName = "node1"
		o.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: ago(time.Minute)}}
		r.now = func() time.Time { return testNow.Add(tokenEvery) }
		look()
		p := mustDecide(t, o, testSettings)
		told := strings.Contains(p.Waits(), "the Secret main-sidecar-token does not hold in token with what sidecars can be asked any more "+want)
		if told != (want != "") || o.TokenTaken {
			t.Errorf("of the token %q: %q, taken: %t", token, p.Waits(), o.TokenTaken)
		}
	}
}
