package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"druid.internal/druid/internal/engine/prober"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/retry"
)

func (a *app) storeCommand() *cobra.Command {
	parent := &cobra.Command{
		Use:   "store",
		Short: "Ask a store about itself",
		RunE: func(*cobra.Command, []string) error {
			return &usageError{fmt.Errorf("store needs a verb: probe")}
		},
	}
	parent.AddCommand(a.probeCommand())
	return parent
}

func (a *app) probeCommand() *cobra.Command {
	var (
		from    storeFlags
		out     outputFlag
		dryRun  bool
		require string
		rights  string
	)
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Find out by trying what protection a store really gives",
		Long: `Find out by trying what protection a store really gives.

One byte is written, read back with its lock, and an attempt is made to overwrite and to delete it. Only a
refusal to delete an object whose lock was read back counts as proof. In a locked bucket the byte stays for one
retention period.

With --require the exit code is 6 if less is proven than that: compliance (a lock that nobody can lift), governance
(one that privileged identities can lift) or versions (what is written over is kept).

--rights lists the rights that the credentials lack for a role, and ends with the exit code 5 if one is missing. Nothing stays in
the bucket: existing objects are read, an upload is begun and aborted, and other changes are requested for a version that does
not exist. Roles: member (default: writes and collects), writer, reader, collector, extender, excluder.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			want, err := prober.ParseRequirement(require)
			if err != nil {
				return &usageError{fmt.Errorf("--require: %w", err)}
			}
			if cmd.Flags().Changed("rights") {
				if want != prober.RequireNothing {
					return &usageError{errors.New("--rights and --require exclude each other: --rights proves no protection")}
				}
				return a.rights(cmd.Context(), from, out, prober.Role(rights), dryRun)
			}
			bare, err := a.openBareStore(cmd.Context(), from)
			if err != nil {
				return err
			}
			s := retry.New(bare, retry.Options{})
			deleter, _ := store.As[store.Deleter](s)
			p, err := prober.New(s, deleter, prober.Options{Prefix: from.prefix})
			if err != nil {
				return err
			}
			plan, err := p.Plan(cmd.Context())
			if err != nil {
				return err
			}
			for _, n := range plan.Notices {
				fmt.Fprintln(a.sys.err, n)
			}
			if dryRun {
				return nil
			}
			report, err := p.Run(cmd.Context(), plan, time.Now())
			if err != nil {
				return err
			}
			if err := out.print(a.sys.out, report, func(w io.Writer) error { return probeTable(w, report) }); err != nil {
				return err
			}
			return report.Meets(want)
		},
	}
	from.add(cmd.Flags(), "", "the store")
	out.add(cmd.Flags())
	cmd.Flags().StringVar(&require, "require", "", "fail if less is proven than compliance, governance or versions; empty: whatever is found is no failure")
	cmd.Flags().StringVar(&rights, "rights", string(prober.RoleMember), "list the rights that this role lacks, and write nothing that stays: member, writer, reader, collector, extender or excluder")
	cmd.Flags().Lookup("rights").NoOptDefVal = string(prober.RoleMember)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done and stop")
	return cmd
}

// rights lists the rights that a role needs.
func (a *app) rights(ctx context.Context, from storeFlags, out outputFlag, role prober.Role, dryRun bool) error {
	role, err := prober.ParseRole(string(role))
	if err != nil {
		return &usageError{fmt.Errorf("--rights: %w", err)}
	}
	bare, err := a.openBareStore(ctx, from)
	if err != nil {
		return err
	}
	p, err := prober.New(retry.New(bare, retry.Options{}), nil, prober.Options{Prefix: from.prefix})
	if err != nil {
		return err
	}
	key := p.Key()
	fmt.Fprintln(a.sys.err, p.Rehearsal(key, role))
	if dryRun {
		return nil
	}
	report, err := p.Rights(ctx, key, role)
	if err != nil {
		return err
	}
	if err := out.print(a.sys.out, report, func(w io.Writer) error { return rightsTable(w, report) }); err != nil {
		return err
	}
	return report.Err()
}

func rightsTable(w io.Writer, r prober.Rights) error {
	rows := [][]string{{"RIGHT", "", "REASON"}}
	for _, right := range r.Rights {
		rows = append(rows, []string{right.What, string(right.Granted), right.Reason})
	}
	if r.Endpoint != "" {
		fmt.Fprintln(w, "endpoint: "+r.Endpoint)
	}
	return columns(w, rows)
}

func probeTable(w io.Writer, r prober.Report) error {
	lock := "the store did not tell"
	if r.Lock != nil {
		lock = (&protectionView{r.Lock.Mode, r.Lock.Until, r.Lock.Hold}).String()
	}
	rows := [][]string{}
	if r.Endpoint != "" {
		rows = append(rows, []string{"endpoint", r.Endpoint})
	}
	if err := columns(w, append(rows, [][]string{
		{"object", r.Version.String()},
		{"lock", lock},
		{"delete it", string(r.Deletion.Outcome) + ": " + r.Deletion.Reason},
		{"overwrite it", string(r.Overwrite.Outcome) + ": " + r.Overwrite.Reason},
		{"PROTECTION", string(r.Protection)},
	}...)); err != nil {
		return err
	}
	for _, c := range r.Conclusions {
		fmt.Fprintln(w, c)
	}
	return nil
}
