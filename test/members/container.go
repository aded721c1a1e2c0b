package members

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"druid.internal/druid/test/process"
)

// How long is waited before a process that ended is started again: less than a kubelet does, so
// that tests end, but growing as there.
const (
	backoffFirst = 100 * time.Millisecond
	backoffLast  = 5 * time.Second
	backoffReset = 10 * time.Second // a process that ran so long begins anew
)

// grace is how long a process may take to end after it was asked to.
const grace = 30 * time.Second

// container is a process that is started again whenever it ends, unless it is held.
type container struct {
	name    string
	command func() process.Command // asked before each start
	log     *process.Log

	mu     sync.Mutex
	hold   bool
	closed bool
	proc   *process.Process // nil while none runs
	starts int
	exits  []string // why it ended, each time
	change chan struct{}
	gone   chan struct{}
}

// newContainer is held until up.
func newContainer(name string, command func() process.Command) *container {
	c := &container{name: name, command: command, log: &process.Log{}, hold: true, change: make(chan struct{}), gone: make(chan struct{})}
	go c.keep()
	return c
}

// keep is the kubelet.
func (c *container) keep() {
	defer close(c.gone)
	wait := backoffFirst
	for {
		proc, change, closed := c.next()
		if closed {
			return
		}
		if proc == nil { // held
			wait = backoffFirst
			<-change
			continue
		}
		begun := time.Now()
		<-proc.Done()
		held := c.ended(proc)
		if time.Since(begun) >= backoffReset {
			wait = backoffFirst
		}
		if held {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.changed():
			timer.Stop()
		}
		wait = min(2*wait, backoffLast)
	}
}

// next starts the process unless it is held.
func (c *container) next() (*process.Process, <-chan struct{}, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hold || c.closed {
		return nil, c.change, c.closed
	}
	command := c.command()
	command.Log = c.log
	proc, err := command.Start()
	if err != nil {
		// There is no such program, or no room for it: nobody waits for it in vain.
		fmt.Fprintf(c.log, "%v\n", err)
		c.exits = append(c.exits, err.Error())
		c.hold = true
		return nil, c.change, false
	}
	c.proc = proc
	c.starts++
	c.signal()
	return proc, nil, false
}

// ended notes the end and reports whether it is to stay.
func (c *container) ended(proc *process.Process) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proc = nil
	end := "exit code 0"
	if err := proc.Err(); err != nil {
		end = err.Error()
	}
	c.exits = append(c.exits, end)
	fmt.Fprintf(c.log, "----- %s ended: %s -----\n", c.name, end)
	c.signal()
	return c.hold || c.closed
}

// signal wants c.mu.
func (c *container) signal() {
	close(c.change)
	c.change = make(chan struct{})
}

func (c *container) changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.change
}

// up has it run, now and whenever it ends.
func (c *container) up() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = false
	c.signal()
}

// down asks the process to end and keeps it from being started; one that does not end is killed and
// reported.
func (c *container) down() error {
	proc := c.held()
	if proc == nil {
		return nil
	}
	var err error
	if !proc.Ended() {
		proc.Signal(syscall.SIGTERM)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-proc.Done():
		case <-timer.C:
			err = fmt.Errorf("%s did not end within %s and was killed\n%s", c.name, grace, c.log)
			proc.Kill()
		}
	}
	c.settle()
	return err
}

// crash kills the process and keeps it from being started.
func (c *container) crash() {
	if proc := c.held(); proc != nil {
		proc.Kill()
	}
	c.settle()
}

func (c *container) held() *process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = true
	c.signal()
	return c.proc
}

// settle waits until the end of the process is noted.
func (c *container) settle() {
	for {
		c.mu.Lock()
		running, change := c.proc != nil, c.change
		c.mu.Unlock()
		if !running {
			return
		}
		<-change
	}
}

// kill9 kills the process; it will be started again. false: none runs.
func (c *container) kill9() bool {
	c.mu.Lock()
	proc := c.proc
	c.mu.Unlock()
	if proc == nil || proc.Ended() {
		return false
	}
	proc.Kill()
	return true
}

// send sends a signal; false: no process runs.
func (c *container) send(s syscall.Signal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.proc == nil || c.proc.Ended() {
		return false
	}
	c.proc.Signal(s)
	return true
}

// close ends the process and its keeping.
func (c *container) close() {
	c.mu.Lock()
	proc := c.proc
	if !c.closed {
		c.closed = true
		c.signal()
	}
	c.mu.Unlock()
	if proc != nil {
		proc.Kill()
	}
	<-c.gone
}

// Life is what was seen of a process.
type Life struct {
	Starts  int
	Exits   []string // why it ended, each time
	Running bool
	PID     int // 0 while it does not run
}

func (c *container) life() Life {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := Life{Starts: c.starts, Exits: append([]string{}, c.exits...), Running: c.proc != nil}
	if c.proc != nil {
		l.PID = c.proc.PID()
	}
	return l
}
