package prober

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
)

// Role is who uses a store, as docs/operations/permissions.md names them.
type Role string

// The roles. A member is a sidecar that writes backups and collects them, unless the Etcd names a
// collector of its own.
const (
	RoleMember    Role = "member"
	RoleWriter    Role = "writer"
	RoleReader    Role = "reader"
	RoleCollector Role = "collector"
	RoleExtender  Role = "extender"
	RoleExcluder  Role = "excluder"
)

// Roles are all roles.
func Roles() []Role {
	return []Role{RoleMember, RoleWriter, RoleReader, RoleCollector, RoleExtender, RoleExcluder}
}

// ParseRole reads the name of a role.
func ParseRole(s string) (Role, error) {
	if r := Role(s); slices.Contains(Roles(), r) {
		return r, nil
	}
	return "", fmt.Errorf("%q is none of member, writer, reader, collector, extender, excluder", s)
}

// changes are what each role changes. All of them read.
var changes = map[Role][]store.Change{
	RoleMember:    {store.ChangeWrite, store.ChangeAbort, store.ChangeDelete},
	RoleWriter:    {store.ChangeWrite, store.ChangeAbort},
	RoleCollector: {store.ChangeDelete},
	RoleExtender:  {store.ChangeExtend},
	RoleExcluder:  {store.ChangeTag},
}

// Granted is whether an identity has a right.
type Granted string

// The answers.
const (
	Has      Granted = "granted"
	Missing  Granted = "missing"
	NotTried Granted = "not tried"
	Failed   Granted = "not known" // the trial failed for another reason
)

// Right is one right that a role needs.
type Right struct {
	What    string  `json:"what"`
	Granted Granted `json:"granted"`
	Reason  string  `json:"reason,omitempty"` // why it is not granted, and what to grant
}

// Rights are the rights of an identity that a role needs.
type Rights struct {
	Location string  `json:"location"`
	Endpoint string  `json:"endpoint,omitempty"`
	Role     Role    `json:"role"`
	Rights   []Right `json:"rights"`
}

// ErrRights is returned when a right is missing.
var ErrRights = errors.New("rights are missing")

// Err is an ErrRights that names what is missing, and store.ErrForbidden as well; nil if nothing is.
func (r Rights) Err() error {
	var missing []string
	for _, right := range r.Rights {
		if right.Granted == Missing {
			missing = append(missing, right.What)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: the role %s lacks the right to %s in %s: %w", ErrRights, r.Role, strings.Join(missing, ", "), r.Location, store.ErrForbidden)
}

// Rehearsal says what Rights does to the store.
func (p *Prober) Rehearsal(key string, role Role) string {
	if len(changes[role]) == 0 {
		return "nothing is written: the role " + string(role) + " only reads"
	}
	if _, ok := store.As[store.Rehearser](p.store); !ok {
		return "nothing is written: this provider's rights to change objects can only be tried by store probe without --rights"
	}
	return fmt.Sprintf("nothing stays in %s: an upload of %s is begun and aborted, and other changes are requested for a version that does not exist", p.store.Capabilities().Location, key)
}

// Key is a key below the prefix that nobody uses.
func (p *Prober) Key() string { return p.key() }

// errFirst ends a listing at its first object.
var errFirst = errors.New("one object is enough")

// Rights finds out which rights that a role needs this identity has, by the requests of that role. It
// writes nothing that stays. An error means that it could not be found out.
func (p *Prober) Rights(ctx context.Context, key string, role Role) (Rights, error) {
	caps := p.store.Capabilities()
	r := Rights{Location: caps.Location, Endpoint: caps.Endpoint, Role: role}
	add := func(what string, err error) error {
		right := Right{What: what, Granted: Has}
		switch {
		case errors.Is(err, store.ErrForbidden):
			right.Granted, right.Reason = Missing, err.Error()
		case errors.Is(err, store.ErrUnreachable), errors.Is(err, store.ErrCredentials), errors.Is(err, store.ErrNoBucket), ctx.Err() != nil:
			return fmt.Errorf("rights in %s: %w", caps.Location, err)
		case err != nil:
			right.Granted, right.Reason = Failed, err.Error()
		}
		r.Rights = append(r.Rights, right)
		return nil
	}
	newest, err := p.someObject(ctx)
	if err := add("list all versions", err); err != nil {
		return Rights{}, err
	}
	if err := p.settingsRight(ctx, &r); err != nil {
		return Rights{}, err
	}
	if newest == nil {
		for _, what := range []string{"read objects", "read locks", "read tags"} {
			r.Rights = append(r.Rights, Right{What: what, Granted: NotTried, Reason: "there is no object below the prefix"})
		}
	} else if err := p.readRights(ctx, *newest, &r, add); err != nil {
		return Rights{}, err
	}
	return r, p.changeRights(ctx, key, role, &r, add)
}

// someObject is an object below the prefix, or nil.
func (p *Prober) someObject(ctx context.Context) (found *store.Version, err error) {
	err = p.store.List(ctx, string(p.opts.Prefix), func(o store.Object) error {
		if o.Marker {
			return nil
		}
		found = &o.Version
		return errFirst
	})
	if errors.Is(err, errFirst) {
		err = nil
	}
	return found, err
}

// settingsRight adds the right to read how the bucket protects its objects.
func (p *Prober) settingsRight(ctx context.Context, r *Rights) error {
	const what = "read the bucket's settings"
	inspector, ok := store.As[store.Inspector](p.store)
	if !ok {
		return nil
	}
	b, err := inspector.Inspect(ctx)
	switch {
	case errors.Is(err, store.ErrUnsupported):
		return nil
	case errors.Is(err, store.ErrForbidden):
		r.Rights = append(r.Rights, Right{what, Missing, err.Error()})
		return nil
	case err != nil:
		return fmt.Errorf("rights in %s: %w", r.Location, err)
	}
	// What may not be read is a note.
	lacking := slices.DeleteFunc(slices.Clone(b.Notes), func(note string) bool { return !strings.Contains(note, "this identity lacks ") })
	if len(lacking) > 0 {
		r.Rights = append(r.Rights, Right{what, Missing, strings.Join(lacking, "; ")})
		return nil
	}
	r.Rights = append(r.Rights, Right{What: what, Granted: Has})
	return nil
}

// readRights adds the rights to read an object, its lock and its tags.
func (p *Prober) readRights(ctx context.Context, v store.Version, r *Rights, add func(string, error) error) error {
	o, err := p.store.Stat(ctx, v)
	if err == nil {
		err = p.readByte(ctx, v)
	}
	if err := add("read objects", err); err != nil || o.Key == "" {
		return err
	}
	lock, tags := Right{What: "read locks", Granted: Has}, Right{What: "read tags", Granted: Has}
	if o.Retention == nil || o.Retention.Mode == immutability.ModeUnknown {
		lock.Granted, lock.Reason = Missing, "the lock of "+v.String()+" cannot be read (S3: s3:GetObjectRetention)"
	}
	if o.Tags == nil && p.store.Capabilities().Tags {
		tags.Granted, tags.Reason = Missing, "the tags of "+v.String()+" cannot be read (S3: s3:GetObjectTagging and s3:GetObjectVersionTagging)"
	}
	r.Rights = append(r.Rights, lock, tags)
	return nil
}

// readByte reads the beginning of an object.
func (p *Prober) readByte(ctx context.Context, v store.Version) error {
	rc, err := p.store.Open(ctx, v, 0, -1)
	if err != nil {
		return err
	}
	defer rc.Close()
	if _, err := io.ReadFull(rc, make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// changeRights adds the rights to make the changes of a role.
func (p *Prober) changeRights(ctx context.Context, key string, role Role, r *Rights, add func(string, error) error) error {
	if len(changes[role]) == 0 {
		return nil
	}
	trials, why := map[store.Change]*store.Trial{}, "it cannot be tried without writing; run store probe without --rights"
	if rehearser, ok := store.As[store.Rehearser](p.store); ok {
		why = "there was nothing to try it on" // no upload to abort, or no locks
		for _, t := range rehearser.Rehearse(ctx, key) {
			trials[t.Change] = &t
		}
	}
	for _, c := range changes[role] {
		if t := trials[c]; t != nil {
			if err := add(string(c), t.Err); err != nil {
				return err
			}
			continue
		}
		r.Rights = append(r.Rights, Right{string(c), NotTried, why})
	}
	return nil
}
