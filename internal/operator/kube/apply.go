package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldManager is who the API server notes as the writer of what the operator wrote.
const FieldManager = "etcd-druid"

// ErrForeign: an object of that name exists and belongs to somebody else.
var ErrForeign = errors.New("belongs to somebody else")

// ErrChanged: the object has changed since it was looked at, and what was decided may not hold any more.
var ErrChanged = errors.New("has changed since it was looked at")

// Outcome is what applying an object did.
type Outcome struct {
	Created, Changed bool
	// Object is what was created, of its type, or changed, unstructured, as the API server holds it; nil: nothing was.
	Object client.Object
	// TakenFrom are the other writers of fields that were set back, such as "kubectl-edit (spec.replicas)".
	TakenFrom []string
}

// Applier makes objects, and remembers what the API server made of them, so that the same object is
// sent once. It may be used by many goroutines at the same time.
type Applier struct {
	client client.Client
	live   client.Reader

	mu   sync.Mutex
	seen map[types.UID]seen
}

// seen is an object as it was applied, and as the API server held it afterwards.
type seen struct {
	digest  string
	version string
	// Of an object that counts the changes of its specification, those of its status do not matter: generation is
	// that count, otherwise 0, and head the digest of what it does not count.
	generation int64
	head       uint64
}

// seeds makes digests that mean nothing to another process.
var seeds = maphash.MakeSeed()

// seenOf is an object as it is now.
func seenOf(digest string, o client.Object) seen {
	s := seen{digest: digest, version: o.GetResourceVersion(), generation: o.GetGeneration()}
	if s.generation == 0 {
		return s
	}
	for _, pairs := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
		for k, v := range pairs {
			s.head += maphash.String(seeds, k+"\x00"+v) // in whatever order
		}
		s.head *= 31
	}
	for _, r := range o.GetOwnerReferences() {
		s.head += maphash.Comparable(seeds, [...]string{string(r.UID), r.Kind, r.Name, strconv.FormatBool(r.Controller != nil && *r.Controller)})
	}
	for _, f := range o.GetFinalizers() {
		s.head += maphash.String(seeds, f)
	}
	return s
}

// is tells whether the object is still what it was then, but for its status.
func (s seen) is(o client.Object) bool {
	if s.version == o.GetResourceVersion() {
		return true
	}
	now := seenOf(s.digest, o)
	return s.generation > 0 && s.generation == now.generation && s.head == now.head
}

// NewApplier is for the API server behind c. live reads from it, past any cache.
func NewApplier(c client.Client, live client.Reader) *Applier {
	return &Applier{client: c, live: live, seen: map[types.UID]seen{}}
}

// Apply makes the object in the API server what want says. have is the object as the caller's cache holds
// it, nil if it does not. Fields that want does not name are left alone, those that it named once and no
// longer names are removed, and so is what others wrote where all is the operator's, see wholly.
//
// If want has a resourceVersion, only this version is changed: a later one is ErrChanged, and is left alone.
//
// No request is sent if everything stands there already. An object that another controller owns is
// ErrForeign, and is not touched, whether or not the cache knew of it.
func (a *Applier) Apply(ctx context.Context, want, have client.Object) (Outcome, error) {
	kind := want.GetObjectKind().GroupVersionKind()
	name := fmt.Sprintf("%s %s/%s", kind.Kind, want.GetNamespace(), want.GetName())
	out, err := a.apply(ctx, want, have)
	if err != nil {
		return Outcome{}, fmt.Errorf("apply %s: %w", name, err)
	}
	return out, nil
}

func (a *Applier) apply(ctx context.Context, want, have client.Object) (Outcome, error) {
	version := want.GetResourceVersion()
	if version != "" {
		want = want.DeepCopyObject().(client.Object)
		want.SetResourceVersion("")
	}
	digest, err := digestOf(want)
	if err != nil {
		return Outcome{}, err
	}
	if absent(have) {
		made, err := a.create(ctx, want, digest)
		switch {
		case err == nil:
			return Outcome{Created: true, Object: made}, nil
		case !apierrors.IsAlreadyExists(err):
			return Outcome{}, err
		}
		// It was made a moment ago and the cache does not know, or it has not got our labels.
		if have, err = a.read(ctx, want); err != nil {
			return Outcome{}, err
		}
	}
	if err := own(want, have); err != nil {
		return Outcome{}, err
	}
	if a.asSeen(digest, have) {
		return Outcome{}, nil
	}
	fields, err := marked(want, digest)
	if err != nil {
		return Outcome{}, err
	}
	same, err := a.same(digest, fields, have)
	if err != nil || same {
		return Outcome{}, err
	}
	if version != "" && version != have.GetResourceVersion() {
		return Outcome{}, ErrChanged
	}
	claimed, err := a.claim(ctx, have, version)
	if err != nil {
		return Outcome{}, err
	}
	return a.send(ctx, fields, digest, have, claimed)
}

// create makes an object that is not there. An apply would also change one that is there, and whose
// it is would be known too late.
func (a *Applier) create(ctx context.Context, want client.Object, digest string) (client.Object, error) {
	made := want.DeepCopyObject().(client.Object)
	annotations := made.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationApplied] = digest
	made.SetAnnotations(annotations)
	if err := a.client.Create(ctx, made, client.FieldOwner(FieldManager)); err != nil {
		return nil, err
	}
	a.remember(made, digest)
	return made, nil
}

func (a *Applier) read(ctx context.Context, want client.Object) (client.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(want.GetObjectKind().GroupVersionKind())
	if err := a.live.Get(ctx, client.ObjectKeyFromObject(want), u); err != nil {
		return nil, err
	}
	return u, nil
}

// claim makes the fields that were written when the object was created those that were applied, so
// that applying without them removes them. The operator of the original wrote in the same name. If a version is named, no other one
// is changed, and what it is returns.
func (a *Applier) claim(ctx context.Context, have client.Object, version string) (string, error) {
	all := have.GetManagedFields()
	created := slices.IndexFunc(all, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == FieldManager && m.Operation == metav1.ManagedFieldsOperationUpdate && m.Subresource == ""
	})
	if created < 0 || applied(all) >= 0 {
		return version, nil
	}
	// The caller's cache may hold less of the others' entries than there is: they are read.
	u := &unstructured.Unstructured{}
	gvk, err := a.client.GroupVersionKindFor(have)
	if err != nil {
		return "", err
	}
	u.SetGroupVersionKind(gvk)
	if err := a.live.Get(ctx, client.ObjectKeyFromObject(have), u); err != nil {
		return "", err
	}
	switch {
	case u.GetUID() != have.GetUID():
		return "", fmt.Errorf("it was made anew by somebody else a moment ago")
	case version != "" && u.GetResourceVersion() != version:
		return "", ErrChanged
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(u, sets.New(FieldManager), FieldManager)
	if err != nil || patch == nil {
		return version, err
	}
	err = a.client.Patch(ctx, u, client.RawPatch(types.JSONPatchType, patch)) // of the version that was read
	switch {
	case version == "":
		return "", err
	case apierrors.IsConflict(err):
		return "", fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return u.GetResourceVersion(), err
}

// send applies the fields to the object that is there, and if a version is named, to no other one.
func (a *Applier) send(ctx context.Context, fields map[string]any, digest string, have client.Object, version string) (Outcome, error) {
	var taken []string
	u := &unstructured.Unstructured{Object: fields}
	u.SetUID(have.GetUID()) // and to no other of its name
	u.SetResourceVersion(version)
	send := func(options ...client.ApplyOption) error {
		sent := u.DeepCopy()
		err := a.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(sent), append(options, client.FieldOwner(FieldManager))...)
		if err == nil {
			u = sent
		}
		return err
	}
	err := send()
	if others, conflict := conflicts(err); conflict {
		taken = others
		err = send(client.ForceOwnership)
	}
	if version != "" && apierrors.IsConflict(err) {
		err = fmt.Errorf("%w: %w", ErrChanged, err)
	}
	if err != nil {
		return Outcome{}, err
	}
	if added, _ := additions(fields, u.Object, u.GetManagedFields()); len(added) > 0 {
		if err := a.takeOut(ctx, u, added); err != nil {
			return Outcome{}, err
		}
		for _, one := range slices.Backward(added) {
			taken = append(taken, one.by+" (added "+one.name+")")
		}
	}
	a.remember(u, digest)
	out := Outcome{Changed: have.GetResourceVersion() != u.GetResourceVersion(), TakenFrom: taken}
	if out.Changed {
		out.Object = u
	}
	return out, nil
}

// takeOut removes what somebody added to the object, if it still stands where it stood, and reads what the object is then. Others write
// its status all the time, so its version says nothing.
func (a *Applier) takeOut(ctx context.Context, u *unstructured.Unstructured, added []addition) error {
	var steps []map[string]any
	for _, one := range added { // the last first, so that indices stay those that they are
		steps = append(steps, map[string]any{"op": "test", "path": one.pointer(), "value": one.value}, map[string]any{"op": "remove", "path": one.pointer()})
	}
	patch, err := json.Marshal(steps)
	if err == nil {
		err = a.client.Patch(ctx, u, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(FieldManager))
	}
	if err != nil {
		return fmt.Errorf("take out what was added: %w", err)
	}
	return nil
}

func (a *Applier) remember(u client.Object, digest string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen[u.GetUID()] = seenOf(digest, u)
}

// Forget drops what is remembered of an object that is gone.
func (a *Applier) Forget(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.seen, uid)
}

// AnnotationApplied is on every object that was applied: the digest of what was. By it a field that is
// named no longer is noticed, also by an operator that did not apply it itself.
const AnnotationApplied = "druid.gardener.cloud/applied"

// digestOf is over everything that an object says.
func digestOf(want client.Object) (string, error) {
	text, err := encode(want)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(text, want.GetObjectKind().GroupVersionKind().String()...))
	return hex.EncodeToString(sum[:8]), nil
}

// encode has the same object always be the same bytes: both encodings sort the keys of maps. That of protobuf, which
// objects of Kubernetes have, takes a tenth of the time.
func encode(want client.Object) ([]byte, error) {
	if m, ok := want.(interface{ Marshal() ([]byte, error) }); ok {
		return m.Marshal()
	}
	return json.Marshal(want)
}

// marked is an object as it is applied, with its digest as an annotation.
func marked(want client.Object, digest string) (map[string]any, error) {
	fields, err := plain(want)
	if err != nil {
		return nil, err
	}
	return fields, unstructured.SetNestedField(fields, digest, "metadata", "annotations", AnnotationApplied)
}

// asSeen tells whether have is the version that applying what has the digest gave before.
func (a *Applier) asSeen(digest string, have client.Object) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, known := a.seen[have.GetUID()]
	return known && last.digest == digest && last.is(have)
}

// same tells whether have is what applying the fields would give: just these fields were applied before
// and all of them stand there.
func (a *Applier) same(digest string, fields map[string]any, have client.Object) (bool, error) {
	if have.GetAnnotations()[AnnotationApplied] != digest {
		return false, nil
	}
	live, err := plain(have)
	if err != nil {
		return false, err
	}
	live["apiVersion"], live["kind"] = fields["apiVersion"], fields["kind"] // typed objects from a cache have neither
	if !within(fields, live) {
		return false, nil
	}
	if added, altered := additions(fields, live, have.GetManagedFields()); altered || len(added) > 0 {
		return false, nil
	}
	a.remember(have, digest)
	return true, nil
}

// applied is which entry is what was applied in the operator's name; negative: none.
func applied(all []metav1.ManagedFieldsEntry) int {
	return slices.IndexFunc(all, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == FieldManager && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == ""
	})
}

// own tells whether the object that is there may be changed: it is that of the wanted one's owner, or
// nobody's but labelled as the owner's.
func own(want, have client.Object) error {
	mine, theirs := metav1.GetControllerOf(want), metav1.GetControllerOf(have)
	switch {
	case mine == nil:
		return nil
	case theirs != nil && theirs.UID != mine.UID:
		return fmt.Errorf("%w: %s %s controls it; rename or delete one of the two", ErrForeign, theirs.Kind, theirs.Name)
	case theirs == nil:
		for _, label := range []string{partOf, managedBy} {
			if is, wanted := have.GetLabels()[label], want.GetLabels()[label]; is != wanted {
				return fmt.Errorf("%w: nobody controls it, and its label %s is %q, not %q; delete it, or give it the labels of %s, if it may be overwritten",
					ErrForeign, label, is, wanted, mine.Name)
			}
		}
	}
	return nil
}

// The labels with the name of the owner, and of who makes its objects. The first alone may be anybody's.
const (
	partOf    = "app.kubernetes.io/part-of"
	managedBy = "app.kubernetes.io/managed-by"
)

// absent tells whether an object is nil, or was never read.
func absent(o client.Object) bool { return o == nil || o.GetResourceVersion() == "" }

// conflicts are the writers and fields that stand in the way of an apply.
func conflicts(err error) ([]string, bool) {
	var status apierrors.APIStatus
	if !apierrors.IsConflict(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil, false
	}
	var all []string
	for _, c := range status.Status().Details.Causes {
		if c.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		who := c.Message
		if _, quoted, ok := strings.Cut(c.Message, `"`); ok {
			who, _, _ = strings.Cut(quoted, `"`)
		}
		all = append(all, fmt.Sprintf("%s (%s)", who, strings.TrimPrefix(c.Field, ".")))
	}
	slices.Sort(all)
	return slices.Compact(all), len(all) > 0
}
