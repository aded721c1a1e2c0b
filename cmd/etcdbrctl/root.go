package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// app is what every verb shares.
type app struct {
	sys      system
	logLevel int
	logJSON  bool
	log      *slog.Logger
}

func newRoot(sys system) *cobra.Command {
	a := &app{sys: sys}
	root := &cobra.Command{
		Use:   "etcdbrctl",
		Short: "Back up an etcd into an object store and restore it exactly",
		Long: `etcdbrctl backs up an etcd into an object store and restores it exactly.

Fulls and deltas are written once and never overwritten; every reader looks at all
versions of every object, so a delete marker hides nothing. A restore prints its plan,
proves what it produced, and puts it in place only when it is complete.`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return &usageError{fmt.Errorf("no command given; `etcdbrctl --help` lists them")}
		},
	}
	root.SetOut(sys.out)
	root.SetErr(sys.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w; `%s --help` lists the flags", err, cmd.CommandPath())}
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	flags := root.PersistentFlags()
	flags.IntVar(&a.logLevel, "log-level", 4, "what to log on standard error: 2 errors, 3 warnings, 4 information, 5 everything")
	flags.BoolVar(&a.logJSON, "log-json", false, "log JSON lines instead of text")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		a.log = newLogger(sys, a.logLevel, a.logJSON)
		warnIgnored(cmd.Flags(), a.log)
		return refuseEmpty(cmd.Flags())
	}
	for _, c := range a.commands() {
		if c.Args == nil {
			c.Args = noArgs
		}
		root.AddCommand(c)
	}
	return root
}

// noArgs refuses positional arguments with the line the user should have typed.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasParent() {
		return &usageError{fmt.Errorf("unknown command %q; `etcdbrctl --help` lists them", args[0])}
	}
	return &usageError{fmt.Errorf("unexpected argument %q: %s takes only flags", args[0], cmd.CommandPath())}
}

func newLogger(sys system, level int, json bool) *slog.Logger {
	l := slog.LevelInfo
	switch {
	case level <= 2:
		l = slog.LevelError
	case level == 3:
		l = slog.LevelWarn
	case level >= 5:
		l = slog.LevelDebug
	}
	opts := &slog.HandlerOptions{Level: l}
	if json {
		return slog.New(slog.NewJSONHandler(sys.err, opts))
	}
	return slog.New(slog.NewTextHandler(sys.err, opts))
}

// noEffect marks a flag of the original that needs nothing here: it is accepted, and said.
const noEffect = "no-effect"

// acceptWithoutEffect registers flags that tuned the embedded etcd of the original's restore.
func acceptWithoutEffect(flags *pflag.FlagSet, why string, names ...string) {
	for _, name := range names {
		flags.String(name, "", "accepted for compatibility, without effect: "+why)
		f := flags.Lookup(name)
		f.NoOptDefVal = ""
		f.Annotations = map[string][]string{noEffect: {why}}
		f.Hidden = true
	}
}

// mayBeEmpty marks a flag whose help says what an empty value means.
const mayBeEmpty = "may-be-empty"

// refuseEmpty refuses a flag that was given without a value, as by an unset variable of a script: it
// must not mean the same as a flag that was left out.
func refuseEmpty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, is := f.Value.(pflag.SliceValue); is {
			values = list.GetSlice()
		}
		empty := func(s string) bool { return strings.TrimSpace(s) == "" }
		if err == nil && len(f.Annotations[noEffect])+len(f.Annotations[mayBeEmpty]) == 0 && (len(values) == 0 || slices.ContainsFunc(values, empty)) {
			err = &usageError{fmt.Errorf("--%s is given with an empty value; give a value, or leave the flag out for its default", f.Name)}
		}
	})
	return err
}

func warnIgnored(flags *pflag.FlagSet, log *slog.Logger) {
	flags.Visit(func(f *pflag.Flag) {
		if why := f.Annotations[noEffect]; len(why) > 0 {
			log.Warn("flag has no effect", "flag", "--"+f.Name, "reason", strings.Join(why, " "))
		}
	})
}
