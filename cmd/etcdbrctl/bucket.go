package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/engine/prober"
	"druid.internal/druid/internal/engine/provisioner"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/admin"
	"druid.internal/druid/internal/store/open"
	"druid.internal/druid/internal/store/retry"
)

func (a *app) bucketCommand() *cobra.Command {
	parent := &cobra.Command{
		Use:   "bucket",
		Short: "Make, inspect, lock or delete a bucket",
		RunE: func(*cobra.Command, []string) error {
			return &usageError{fmt.Errorf("bucket needs a verb: ensure, inspect, lock or delete")}
		},
	}
	parent.AddCommand(a.ensureCommand(), a.inspectCommand(), a.lockCommand(), a.deleteCommand())
	return parent
}

// bucketFlags say which bucket. They are some of those that say where backups are.
type bucketFlags struct {
	storeFlags
	made admin.Creation
}

func (f *bucketFlags) add(flags *pflag.FlagSet) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.storeFlags.add(all, "", "the store")
	for _, name := range []string{"storage-provider", "store-container", "store-endpoint-override", "store-server-side-encryption", "store-kms-key-id"} {
		flags.AddFlag(all.Lookup(name))
	}
	flags.StringVar(&f.made.Project, "project", "", "Google's project of the bucket; empty: that of the service account")
}

// administer opens the bucket itself.
func (a *app) administer(ctx context.Context, f bucketFlags) (*provisioner.Provisioner, error) {
	if f.provider == "" {
		return nil, &usageError{fmt.Errorf("--storage-provider is required: one of %s", open.Supported())}
	}
	b, err := open.Admin(ctx, a.config(f.storeFlags), f.made)
	if err != nil && exitCode(err) == exitFailure {
		return nil, &usageError{err}
	}
	if err != nil {
		return nil, err
	}
	return provisioner.New(b), nil
}

// bucketView is what the verbs print.
type bucketView struct {
	provisioner.Report
	DryRun bool           `json:"dryRun,omitempty"`
	Canary *prober.Report `json:"canary,omitempty"`
	Delete string         `json:"delete,omitempty"` // planned, done, or nothing to do
	Lock   bool           `json:"-"`                // it is the plan of a lock, which --yes carries out
}

// wishFlags say what a bucket shall be.
type wishFlags struct {
	kind, mode string
	period     time.Duration
	locked     bool
	deny       []string
	spend      bool
}

func (f *wishFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.kind, "retention-type", string(immutability.ByBucket), "bucket: the bucket locks everything that is written into it; object: whoever writes locks each object, and the bucket lets them")
	flags.DurationVar(&f.period, "retention-period", 0, "how long, for example 96h; whole days on S3, ABS and OSS; 0: no retention")
	flags.StringVar(&f.mode, "retention-mode", "", "governance: privileged identities can lift it; compliance: nobody can. On S3 by the mode of the locks, elsewhere once the bucket's policy is locked")
	flags.BoolVar(&f.locked, "locked", false, "lock the bucket's policy, which nobody can undo; false, when given, refuses a bucket that is locked")
	flags.StringSliceVar(&f.deny, "deny", nil, "further statements of the bucket's policy (S3): markers refuses everybody deletions without a version, settings changes of versioning, default lock and lifecycle")
	flags.BoolVar(&f.spend, "spend-extension", false, "use up one of the five extensions of a locked policy (ABS) also for less than a tenth of the period")
}

func (f *wishFlags) build(flags *pflag.FlagSet) (immutability.BucketWish, error) {
	w := immutability.BucketWish{Period: immutability.Period(f.period), Mode: immutability.Mode(f.mode), SpendExtension: f.spend}
	for _, d := range f.deny {
		g := immutability.Guard(d)
		if g != immutability.GuardMarkers && g != immutability.GuardSettings {
			return w, &usageError{fmt.Errorf("--deny: %q is neither %s nor %s", d, immutability.GuardMarkers, immutability.GuardSettings)}
		}
		w.Guards = append(w.Guards, g)
	}
	kind, err := immutability.ParseRetentionType(f.kind)
	if err != nil {
		return w, &usageError{fmt.Errorf("--retention-type: %w", err)}
	}
	if f.period < 0 {
		return w, &usageError{fmt.Errorf("--retention-period: %s is less than nothing", f.period)}
	}
	if f.period > 0 || flags.Changed("retention-type") {
		w.Type = kind
	}
	if flags.Changed("locked") {
		w.Locked = &f.locked
	}
	return w, nil
}

func (a *app) ensureCommand() *cobra.Command {
	var (
		from   bucketFlags
		wish   wishFlags
		out    outputFlag
		dryRun bool
		canary bool
	)
	cmd := &cobra.Command{
		Use:   "ensure",
		Short: "Make a bucket, or give one that is there the protection that it lacks",
		Long: `Make a bucket, or give one that is there the protection that it lacks.

The bucket is read, what it lacks is planned, done step by step and read back. Protection is only ever added: a shorter
period, a weaker mode and unlocking are refused with exit code 3, what no bucket of the provider can be with 2. Lifecycle
rules and statements of the bucket's policy that are there stay. It may be killed at any moment and run again; on a bucket
that is as it shall be it changes nothing.

On S3 a longer or stronger default lock counts for what is written from then on, so all versions younger than the period
are looked at, and lengthened where their locks end sooner than creation and period. Two statements of the bucket's policy
deny plain HTTP and TLS before 1.2.

--canary writes one byte afterwards, tries to overwrite and to delete it, as store probe does, and exits with 6 if that
proves less than the mode. In a bucket that locks, the byte stays for one period.`,
		Example: `  etcdbrctl bucket ensure --storage-provider=S3 --store-container=backups \
      --retention-period=96h --retention-mode=compliance --deny=markers,settings --dry-run
  etcdbrctl bucket ensure --storage-provider=GCS --store-container=backups --retention-period=96h --locked`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := wish.build(cmd.Flags())
			if err == nil {
				err = possible(w, from.storeFlags)
			}
			if err != nil {
				return err
			}
			p, err := a.administer(cmd.Context(), from)
			if err != nil {
				return err
			}
			if dryRun {
				r, err := p.Plan(cmd.Context(), w)
				if err != nil {
					return withRemedy(err)
				}
				return a.printBucket(out, bucketView{Report: r, DryRun: true})
			}
			r, err := p.Ensure(cmd.Context(), w)
			view := bucketView{Report: r}
			if err == nil && canary {
				view.Canary, err = a.canary(cmd.Context(), from.storeFlags, w, r)
			}
			if err != nil && len(r.Done) == 0 && view.Canary == nil {
				return withRemedy(err)
			}
			if printErr := a.printBucket(out, view); printErr != nil && err == nil {
				err = printErr
			}
			return err
		},
	}
	flags := cmd.Flags()
	from.add(flags)
	flags.StringVar(&from.made.Region, "location", "", "region or location of a bucket that is made; empty: the provider's choice, on S3 the region of the credentials")
	wish.add(flags)
	out.add(flags)
	flags.BoolVar(&dryRun, "dry-run", false, "say what would be done and stop")
	flags.BoolVar(&canary, "canary", false, "prove the protection by trying")
	return cmd
}

// possible refuses what no bucket of the provider can be, before anything is asked for.
func possible(w immutability.BucketWish, f storeFlags) error {
	p, err := open.ParseProvider(f.provider)
	if err != nil {
		return nil // told when the bucket is opened
	}
	rules, known := immutability.RulesOf(string(p))
	if !known {
		return nil
	}
	if _, err = w.Complete(rules); err != nil && f.container != "" {
		err = fmt.Errorf("%s: %w", f.container, err)
	}
	return withRemedy(err)
}

// canary proves what the bucket gives: what was read back is only configuration.
func (a *app) canary(ctx context.Context, f storeFlags, w immutability.BucketWish, r provisioner.Report) (*prober.Report, error) {
	bare, err := a.openBareStore(ctx, f)
	if err != nil {
		return nil, err
	}
	s := retry.New(bare, retry.Options{})
	var o prober.Options
	want := prober.Requirement(r.Level)
	if w.Type == immutability.ByObject && w.Period > 0 {
		o.Lock, o.Period = w.Mode, w.Period.Duration()
		want = prober.Requirement(w.Mode)
	}
	if r.Level == immutability.ModeAdvisory || r.Level == immutability.ModeNone && o.Lock == "" || s.Capabilities().Advisory {
		want = prober.RequireNothing
	}
	deleter, _ := store.As[store.Deleter](s)
	p, err := prober.New(s, deleter, o)
	if err != nil {
		return nil, err
	}
	plan, err := p.Plan(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range plan.Notices {
		fmt.Fprintln(a.sys.err, n)
	}
	report, err := p.Run(ctx, plan, time.Now())
	if err != nil {
		return nil, err
	}
	return &report, report.Meets(want)
}

func (a *app) inspectCommand() *cobra.Command {
	var (
		from bucketFlags
		out  outputFlag
	)
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Say how a bucket is configured to protect what is in it",
		Long: `Say how a bucket is configured to protect what is in it.

Only configuration is read, and nothing is written. store probe finds out by trying whether the server keeps to it.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.administer(cmd.Context(), from)
			if err != nil {
				return err
			}
			r, err := p.Inspect(cmd.Context())
			if err != nil {
				return err
			}
			return a.printBucket(out, bucketView{Report: r})
		},
	}
	from.add(cmd.Flags())
	out.add(cmd.Flags())
	return cmd
}

func (a *app) lockCommand() *cobra.Command {
	var (
		from bucketFlags
		out  outputFlag
		yes  bool
	)
	cmd := &cobra.Command{
		Use:   "lock",
		Short: "Lock a bucket's retention for ever; prints what it would do until --yes is given",
		Long: `Lock a bucket's retention for ever; prints what it would do until --yes is given.

The retention that the bucket has is locked as it is, so that nobody can shorten or remove it any more; it can still be
made longer. On S3, where the configuration of a bucket cannot be locked, a statement of the bucket's policy refuses
changes of it, and the default lock must be of mode compliance already.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.administer(cmd.Context(), from)
			if err != nil {
				return err
			}
			r, w, err := p.PlanLock(cmd.Context())
			if err != nil {
				return err
			}
			if !yes {
				return a.printBucket(out, bucketView{Report: r, DryRun: true, Lock: true})
			}
			if r, err = p.Ensure(cmd.Context(), w); err != nil && len(r.Done) == 0 {
				return err
			}
			if printErr := a.printBucket(out, bucketView{Report: r}); printErr != nil && err == nil {
				err = printErr
			}
			return err
		},
	}
	from.add(cmd.Flags())
	out.add(cmd.Flags())
	cmd.Flags().BoolVar(&yes, "yes", false, "lock")
	return cmd
}

func (a *app) deleteCommand() *cobra.Command {
	var (
		from bucketFlags
		out  outputFlag
		yes  bool
	)
	cmd := &cobra.Command{
		Use:   "delete",
		Short: "Delete a bucket that is empty; prints what it would do until --yes is given",
		Long: `Delete a bucket that is empty; prints what it would do until --yes is given.

A bucket that holds any version or marker is refused with exit code 3, and what it holds is said: nothing is ever deleted
along with a bucket. Backups that retention lets go are deleted by collect.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.administer(cmd.Context(), from)
			if err != nil {
				return err
			}
			r, err := p.Delete(cmd.Context(), func(ctx context.Context) (store.Reader, error) { return a.openStore(ctx, from.storeFlags) }, yes)
			if err != nil {
				return err
			}
			view := bucketView{Report: r, DryRun: !yes, Delete: "planned"}
			switch {
			case !r.Before.Exists:
				view.Delete = "nothing to do"
			case yes:
				view.Delete = "done"
			}
			return a.printBucket(out, view)
		},
	}
	from.add(cmd.Flags())
	out.add(cmd.Flags())
	cmd.Flags().BoolVar(&yes, "yes", false, "delete")
	return cmd
}

func (a *app) printBucket(out outputFlag, v bucketView) error {
	return out.print(a.sys.out, v, func(w io.Writer) error { return bucketTable(w, v) })
}

// bucketTable shows the bucket as it is now, and the steps.
func bucketTable(w io.Writer, v bucketView) error {
	now := v.Before
	if v.After != nil {
		now = *v.After
	}
	rows := [][]string{{"bucket", strings.TrimPrefix(v.Location, "bucket ")}}
	switch {
	case !now.Exists:
		rows = append(rows, []string{"exists", "no"})
	default:
		retention := "none"
		if now.Period > 0 {
			retention = fmt.Sprintf("%s (%s)", now.Period, now.Mode)
		}
		rows = append(rows, []string{"versions", yesNo(now.Versioned)}, []string{"locks of objects", yesNo(now.ObjectLock)},
			[]string{"retention", retention}, []string{"locked", lockedBy(now)})
		if !now.Lapses.IsZero() {
			rows = append(rows, []string{"lapses", moment(now.Lapses)})
		}
		if len(now.Guards) > 0 {
			rows = append(rows, []string{"denied", joined(now.Guards)})
		}
	}
	if err := columns(w, append(rows, []string{"LEVEL", string(v.Level)})); err != nil {
		return err
	}
	for _, n := range now.Notes {
		fmt.Fprintln(w, n)
	}
	if v.After == nil && len(v.Done) > 0 {
		fmt.Fprintln(w, "This is what the bucket was before. What it is now could not be read.")
	}
	if v.Delete != "" {
		fmt.Fprintf(w, "\ndelete: %s\n", v.Delete)
		if v.Delete == "planned" {
			fmt.Fprintln(w, "The bucket is empty. Nothing was done. Give --yes to delete it.")
		}
		return nil
	}
	return stepsTable(w, v)
}

func stepsTable(w io.Writer, v bucketView) error {
	for _, n := range v.Plan.Notes {
		fmt.Fprintln(w, n)
	}
	switch {
	case v.DryRun && len(v.Plan.Steps) == 0:
		fmt.Fprintln(w, "\nNothing is to be done.")
	case v.DryRun:
		fmt.Fprintln(w, "\nThis would be done:")
		for _, s := range v.Plan.Steps {
			mark := ""
			if s.Irreversible {
				mark = " (cannot be undone)"
			}
			fmt.Fprintf(w, "- %s%s\n", s.Text, mark)
		}
		fmt.Fprintf(w, "The level is %s then. Nothing was done.\n", v.Plan.Level)
		if v.Lock && !v.Plan.Done() {
			fmt.Fprintln(w, "Give --yes to lock it.")
		}
	case len(v.Done) > 0:
		fmt.Fprintln(w, "\nThis was done:")
	}
	for _, d := range v.Done {
		text := d.Text
		if d.Skipped {
			text = "left out: " + text
		}
		if d.Said != "" {
			text += ": " + d.Said
		}
		fmt.Fprintf(w, "- %s\n", text)
	}
	if v.Canary != nil {
		fmt.Fprintln(w, "\nThe canary:")
		return probeTable(w, *v.Canary)
	}
	return nil
}

// lockedBy says whether the bucket's settings are locked, in the words in which unlocking them is refused.
func lockedBy(b immutability.Bucket) string {
	if b.LockedByStatement() {
		return "by a statement of its policy, which whoever may change that can take away"
	}
	return yesNo(b.Locked)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func joined[T ~string](words []T) string {
	s := ""
	for i, w := range words {
		if i > 0 {
			s += ", "
		}
		s += string(w)
	}
	return s
}

// bucketRefused reports whether a bucket is not made what was asked for; impossible: no bucket of the
// provider can be that.
func bucketRefused(impossible bool) func(error) bool {
	return func(err error) bool {
		var r *immutability.BucketRefusal
		return errors.As(err, &r) && r.Impossible == impossible
	}
}
