package kube

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
	"druid.internal/druid/internal/agentapi"
)

// publisher writes the status of the EtcdMember. It is the only one who does.
type publisher struct {
	Options
	api  *api
	line line

	there   bool                       // the object was, the last time
	uid     types.UID                  // of the object that was read last
	before  druidv1alpha1.MemberReport // its status when it was read first
	learner bool                       // it has the annotation create-as-learner

	written   *druidv1alpha1.MemberReport // nil: nothing was written to this object yet
	writtenAt time.Time
	revision  int64 // the last one that etcd told in this life; 0: none
}

// application is the status as it is applied: what it does not name is removed.
type application struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        identity                   `json:"metadata"`
	Status          druidv1alpha1.MemberReport `json:"status"`
}

// identity names one object: with its UID, another one of the same name is a conflict.
type identity struct {
	Name        string         `json:"name,omitempty"`
	Namespace   string         `json:"namespace,omitempty"`
	UID         types.UID      `json:"uid,omitempty"`
	Annotations map[string]any `json:"annotations,omitempty"`
}

// step does what is due: read the object, write its status, or remove the annotation.
func (p *publisher) step(ctx context.Context) {
	if !p.line.open() {
		return
	}
	if !p.there {
		if err := p.read(ctx); err != nil {
			p.line.note(ctx, err)
			return
		}
	}
	m, now := p.State(), p.Now()
	next := p.next(m)
	if p.written == nil || now.Sub(p.writtenAt) >= pace(*p.written, next) {
		err := p.write(ctx, next)
		p.line.note(ctx, err)
		if err != nil {
			return
		}
		p.written, p.writtenAt = &next, now
	}
	if p.learner && votes(m) {
		p.line.note(ctx, p.unmark(ctx))
	}
}

// next is what is to stand there now.
func (p *publisher) next(m agentapi.Member) druidv1alpha1.MemberReport {
	r := since(p.before, describe(m))
	if r.Revision != 0 {
		p.revision = r.Revision
	}
	return r
}

// parting bounds, altogether, the requests that are made when the sidecar has been told to end.
const parting = 3 * time.Second

// end writes once what was not written yet, at whatever pace: the operator compares the last revision of a member that
// has ended with that of the final full. An etcd that ended before the sidecar takes nothing back of what it told.
func (p *publisher) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	if !p.there {
		if err := p.read(ctx); err != nil {
			p.line.note(ctx, err)
			return
		}
	}
	next := p.next(p.State())
	next.Revision = p.revision
	if p.written == nil || !equal(*p.written, next) {
		p.line.note(ctx, p.write(ctx, next))
	}
}

// read learns what stands there. The status of an object that was read before is not taken again: it
// is what was written since.
func (p *publisher) read(ctx context.Context) error {
	var m druidv1alpha1.EtcdMember
	if err := p.api.get(ctx, p.api.member, &m); err != nil {
		return err
	}
	if m.UID != p.uid {
		p.uid, p.before = m.UID, m.Status
	}
	p.there, p.written = true, nil
	p.seen(&m)
	return nil
}

// write applies the status.
func (p *publisher) write(ctx context.Context, r druidv1alpha1.MemberReport) error {
	var m druidv1alpha1.EtcdMember
	err := p.api.patch(ctx, p.api.member+"/status", applyPatch, application{
		TypeMeta: metav1.TypeMeta{APIVersion: druidv1alpha1.GroupVersion().String(), Kind: druidv1alpha1.KindEtcdMember},
		Metadata: identity{Name: p.Member, Namespace: p.Namespace, UID: p.uid}, Status: r,
	}, &m)
	if err != nil {
		p.lost(err)
		return err
	}
	p.seen(&m)
	return nil
}

// unmark removes the annotation: the member has its vote.
func (p *publisher) unmark(ctx context.Context) error {
	var m druidv1alpha1.EtcdMember
	err := p.api.patch(ctx, p.api.member, mergePatch, map[string]any{
		"metadata": identity{UID: p.uid, Annotations: map[string]any{druidv1alpha1.AnnotationCreateAsLearner: nil}},
	}, &m)
	if err != nil {
		p.lost(err)
		return err
	}
	p.Log.Info("the member votes: removed the annotation from its EtcdMember", "annotation", druidv1alpha1.AnnotationCreateAsLearner)
	p.seen(&m)
	return nil
}

// seen notes what is known of an object that was answered.
func (p *publisher) seen(m *druidv1alpha1.EtcdMember) {
	_, p.learner = m.Annotations[druidv1alpha1.AnnotationCreateAsLearner]
}

// lost forgets an object that is gone. Another one of its name has a history of its own.
func (p *publisher) lost(err error) {
	var e *callError
	if errors.As(err, &e) && (e.situation == Missing || e.situation == Conflict) {
		p.there = false
	}
}
