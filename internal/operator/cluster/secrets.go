package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi/auth"
	"druid.internal/druid/internal/operator/desired"
)

// tokenBytes is how long a token is before it is written in hexadecimal digits.
const tokenBytes = 32

const (
	// tokenEvery is how often is looked whether the Secret with the token is there, while it is needed: pods are not
	// ready, or sidecars are asked. tokenSeldom: otherwise, or up to half as much later, so that it is not
	// looked for those of all Etcds at once.
	tokenEvery  = time.Minute
	tokenSeldom = 30 * time.Minute
)

// token makes one if there is no Secret with one. Nobody tells of Secrets, which the operator may not list: it is
// looked for while pods on their nodes are not ready and when sidecars are going to be asked, and seldom otherwise, as
// pods that run have it, and it was made before the StatefulSet.
func (r *Reconciler) token(ctx context.Context, o *Observed, asks bool) error {
	e := o.Etcd
	if e.RuntimeComponentsDisabled() {
		return nil
	}
	if r.tokenUntried(o) {
		o.NewToken = newToken()
		return nil
	}
	needed := asks || o.StatefulSet == nil || o.foreign() || r.unready(o)
	if !r.tokenDue(e, needed) {
		return nil
	}
	var secret corev1.Secret
	err := r.live.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: e.TokenSecretName()}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		o.NewToken = newToken()
		return nil
	case err != nil:
		return fmt.Errorf("read the Secret %s: %w", e.TokenSecretName(), err)
	case ofFormer(&secret, e):
		o.TokenGoing = true
	case !belongs(&secret, e), o.StatefulSet == nil && len(o.Pods) == 0 && !metav1.IsControlledBy(&secret, e):
		// Nobody has it yet, and whoever made one with the right labels beforehand would know the token.
		o.TokenTaken = true
	default:
		if _, err := auth.ParseTokens(secret.Data[desired.TokenKey]); err != nil {
			o.TokenFault = err.Error()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tokens[e.UID] = r.now(); o.TokenGoing || o.TokenTaken || o.TokenFault != "" {
		r.tokens[e.UID] = time.Time{} // at each look until one is there that is ours
	}
	return nil
}

func newToken() []byte {
	token := make([]byte, tokenBytes)
	_, _ = rand.Read(token) // it never fails
	return []byte(hex.EncodeToString(token))
}

// tokenUntried: of a new Etcd nothing is there yet, and making the Secret before all else, for the first time, tells whether it is.
func (r *Reconciler) tokenUntried(o *Observed) bool {
	if o.StatefulSet != nil || len(o.Live) > 0 || o.Etcd.Status.ObservedGeneration != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, tried := r.tokens[o.Etcd.UID]; tried {
		return false
	}
	r.tokens[o.Etcd.UID] = time.Time{}
	return true
}

// tokenMade takes note that the Secret is there.
func (r *Reconciler) tokenMade(e *druidv1alpha1.Etcd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens[e.UID] = r.now()
}

// ofFormer: an Etcd of the same name controls the object that is gone, or goes. So the object does, too.
func ofFormer(object client.Object, e *druidv1alpha1.Etcd) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.Kind == druidv1alpha1.KindEtcd && owner.Name == e.Name && owner.UID != e.UID
}

// tokenDue says whether the Secret with the token is looked for now. What an operator never looked for it takes for
// granted at first, unless it is needed.
func (r *Reconciler) tokenDue(e *druidv1alpha1.Etcd, needed bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, known := r.tokens[e.UID]
	switch {
	case needed:
		return r.now().Sub(seen) >= tokenEvery
	case !known:
		r.tokens[e.UID] = r.now()
		return false
	}
	later := fnv.New32a()
	_, _ = later.Write([]byte(e.UID))
	return r.now().Sub(seen) >= tokenSeldom+time.Duration(later.Sum32()%uint32(tokenSeldom/2/time.Second))*time.Second
}

// missingSecrets finds Secrets that members need and that are not there, have not got the keys that they
// must have, or hold what cannot be used, while a pod does not get ready on its node. Those of roles are looked for by their tasks.
func (r *Reconciler) missingSecrets(ctx context.Context, o *Observed) error {
	if !r.unready(o) {
		return nil
	}
	read := map[string]*corev1.Secret{}
	for _, use := range o.Etcd.MemberSecrets() {
		secret, known := read[use.Name]
		if !known {
			var err error
			if secret, err = r.secret(ctx, o.Etcd, use.Name); err != nil {
				return err
			}
			read[use.Name] = secret
			if secret == nil {
				o.MissingSecrets = append(o.MissingSecrets, use)
			}
		}
		if secret == nil {
			continue
		}
		if keys := desired.Lacks(o.Etcd, use.Field, secret); len(keys) > 0 {
			o.LackingSecrets = append(o.LackingSecrets, LackingSecret{use, keys})
		}
		if why := desired.Fault(o.Etcd, use.Field, secret, r.now()); why != "" {
			o.FaultySecrets = append(o.FaultySecrets, FaultySecret{use, why})
		}
	}
	return r.missingOfFormer(ctx, o, read)
}

// missingOfFormer finds those that pods have mounted which do not start, and that the specification does not name any more, as while members
// change from TLS to none. read are those that were looked for.
func (r *Reconciler) missingOfFormer(ctx context.Context, o *Observed, read map[string]*corev1.Secret) error {
	for _, p := range o.Pods {
		if podReady(p) {
			continue
		}
		for _, v := range p.Spec.Volumes {
			if v.Secret == nil || v.Secret.SecretName == o.Etcd.TokenSecretName() {
				continue
			}
			name := v.Secret.SecretName
			if _, known := read[name]; known {
				continue
			}
			secret, err := r.secret(ctx, o.Etcd, name)
			if err != nil {
				return err
			}
			if read[name] = secret; secret == nil {
				o.MissingSecrets = append(o.MissingSecrets, druidv1alpha1.SecretUse{Name: name, Namespace: o.Etcd.Namespace, Field: p.Name + " still mounts it, the specification named it before"})
			}
		}
	}
	return nil
}

// tryCertificates looks whether members can reach each other with the certificates for peers. With those of
// which one is not accepted the change to TLS would cost the majority.
func (r *Reconciler) tryCertificates(ctx context.Context, o *Observed, s size) error {
	peer := o.Etcd.Spec.Etcd.PeerUrlTLS
	server, err := r.secret(ctx, o.Etcd, peer.ServerTLSSecretRef.Name)
	if err != nil {
		return err
	}
	authority, err := r.secret(ctx, o.Etcd, peer.TLSCASecretRef.Name)
	if err != nil {
		return err
	}
	o.CertificateFault = desired.PeerCertificateFault(o.Etcd, server, authority, int(max(s.want, s.live.Members)), r.now())
	return nil
}

// secret reads one in the namespace of the Etcd; nil: there is none.
func (r *Reconciler) secret(ctx context.Context, e *druidv1alpha1.Etcd, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := r.live.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the Secret %s: %w", name, err)
	}
	return secret, nil
}
