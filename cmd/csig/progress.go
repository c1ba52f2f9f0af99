package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/csig-agent/csig/cmd/process"
	"github.com/csig-agent/csig/findings"
	"github.com/csig-agent/csig/plans"
	"github.com/csig-agent/csig/plans/rollout"
	"github.com/csig-agent/csig/protocol/untrusted"
	"github.com/csig-agent/csig/vendors"
)

// progress shows what a run does: on a terminal a live block of lines, and
// above it one line for each wave and each failure; elsewhere a line for each
// event.
type progress struct {
	w       io.Writer
	command string // "apply", "rollback" or "off"
	json    bool
	began   time.Time
	waves   []string // of an apply: its plan's, as stage/wave
	total   int      // steps; 0: unknown
	before  int      // of them done by a previous run
	done    int
	failed  bool
	printed []string // failures
	err     error

	live    *screen // nil: no terminal
	mu      sync.Mutex
	stage   string   // with the wave: where the run is
	running []string // devices
	wave    int      // devices done in it
	gate    string   // what the gate does; "" while devices are changed
	stop    string   // why no more is begun
}

func newProgress(cmd *cobra.Command, asJSON bool, command string) *progress {
	s := &progress{w: cmd.OutOrStdout(), json: asJSON, command: command, began: time.Now()}
	if screen := newScreen(s.w); !asJSON && screen.terminal() {
		s.live = screen
	}
	return s
}

// count takes in the waves and steps of the plan that is applied.
func (s *progress) count(p *plans.Plan) {
	for name, wave := range p.EachWave() {
		s.waves = append(s.waves, untrusted.Text(name, 2*maxShown+1)) // as report cleans it
		s.total += len(wave.Steps)
	}
}

// stamped is a text with the time since the beginning.
func (s *progress) stamped(text string) string {
	return fmt.Sprintf("%7.1fs  %s", time.Since(s.began).Seconds(), text)
}

// print shows a line that stays.
func (s *progress) print(line string) {
	line = printableLines(line)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.live != nil:
		s.err = errors.Join(s.err, s.live.redraw(line, nil))
	case !s.json:
		_, err := fmt.Fprintln(s.w, line)
		s.err = errors.Join(s.err, err)
	}
}

// redrawn is how often the live block is redrawn.
const redrawn = 250 * time.Millisecond

// during shows progress while f runs, and prints what Ctrl-C does.
func (s *progress) during(ctx context.Context, f func(context.Context) error) error {
	explained := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(explained)
		s.interrupt(why(ctx))
	})
	defer func() {
		if !stop() {
			<-explained
		}
	}()
	if s.live == nil {
		return f(ctx)
	}
	ended, drawn := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(drawn)
		tick := time.NewTicker(redrawn)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				s.mu.Lock()
				s.draw("")
				s.mu.Unlock()
			}
		}
	}()
	err := f(ctx)
	close(ended)
	<-drawn
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errors.Join(s.err, s.live.end(s.passed()))
	return err
}

// interrupt prints what happens now that no more is to be started.
func (s *progress) interrupt(cause string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hand := "the devices in progress are finished"
	if len(s.running) > 0 {
		hand = someOf(s.running, 4) + " in progress: to be finished"
	}
	after := map[string]string{
		"apply":    "the journal has it: --resume and csig rollback complete what is cut off",
		"rollback": "the journal knows: run it again",
		"off":      "run it again",
	}[s.command]
	s.stop = printableLines(fmt.Sprintf("%s: %s. Ctrl-C again ends csig at once; %s.", cause, hand, after))
	switch {
	case s.live != nil:
		s.draw("")
	case !s.json:
		_, err := fmt.Fprintln(s.w, s.stamped(s.stop))
		s.err = errors.Join(s.err, err)
	}
}

// why is what has ended a context, in a word.
func why(ctx context.Context) string {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause.Error()
	}
	return "terminated"
}

// interrupted reports whether an error is only that ctx has ended.
func (s *progress) interrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && !s.failed && errors.Is(err, context.Cause(ctx))
}

// someOf names so many, and counts the others.
func someOf(names []string, most int) string {
	shown, left := atMost(names, most)
	text := strings.Join(shown, ", ")
	if left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}

// draw redraws the live block, below lines that stay.
func (s *progress) draw(above string) {
	first := s.stage
	if n := slices.Index(s.waves, s.stage); n >= 0 {
		first = fmt.Sprintf("wave %d of %d: %s", n+1, len(s.waves), s.stage)
	}
	if first == "" {
		first = "looking at the devices"
	}
	steps, bar := count(s.done, "step"), ""
	if s.total > 0 {
		const most = 20
		done := s.before + s.done
		full := min(most, most*done/s.total)
		steps = fmt.Sprintf("%d of %d steps", done, s.total)
		bar = fmt.Sprintf("[%s%s] ", strings.Repeat("#", full), strings.Repeat(".", most-full))
	}
	// The bar repeats what the numbers show.
	last := fmt.Sprintf("  %s%s  %v", bar, steps, time.Since(s.began).Round(time.Second))
	width := s.live.columns()
	if utf8.RuneCountInString(first+last) > width {
		last = strings.Replace(last, bar, "", 1)
	}
	first = cut(first, max(1, width-utf8.RuneCountInString(last))) + last
	second := "in progress: " + someOf(s.running, 4)
	switch {
	case len(s.running) > 0:
	case s.gate != "":
		second = "gate: " + s.gate
	default:
		second = "in progress: none"
	}
	block := []string{first, second}
	if s.stop != "" {
		block = append(block, strings.Split(strings.TrimSuffix(wrap(s.stop, s.live.columns(), 2), "\n"), "\n")...)
	}
	s.err = errors.Join(s.err, s.live.redraw(above, block))
}

// passed returns what was done in the wave, once.
func (s *progress) passed() string {
	if s.wave == 0 {
		return ""
	}
	text := s.stamped(s.stage + "  " + count(s.wave, "device") + " done")
	s.wave = 0
	return text
}

// note takes an event into account. It returns what is to be printed of the wave
// that is over now.
func (s *progress) note(p *rollout.Progress) (over string) {
	where := p.Stage + suffix("/", p.Wave)
	if p.Event == rollout.EventGate || p.Event == rollout.EventEnd || where != "" && where != s.stage {
		over = s.passed()
	}
	if where != "" && where != s.stage {
		s.stage, s.gate = where, ""
	}
	drop := func() {
		s.running = slices.DeleteFunc(s.running, func(name string) bool { return name == p.Device })
	}
	switch p.Event {
	case rollout.EventStart, rollout.EventUndoing, rollout.EventHand:
		s.gate = ""
		s.running = append(s.running, p.Device)
	case rollout.EventDone, rollout.EventUndone:
		drop()
		s.done++
		s.wave++
	case rollout.EventFailed:
		drop()
		s.failed = s.failed || !s.removedInstead(p)
	case rollout.EventWatch:
		s.gate = "learning what the ports lose before the wave"
	case rollout.EventVerify:
		s.gate = "reading back all that was changed"
	case rollout.EventJudge:
		s.gate = "watching the ports, then reading back and probing"
	case rollout.EventProve:
		s.gate = "waiting until the dead-man of each device has fired once"
	case rollout.EventGate:
		s.gate = ""
		s.failed = s.failed || p.Err != nil && !errors.Is(p.Err, process.ErrInterrupted) && !errors.Is(p.Err, context.Canceled)
	}
	return over
}

// progressLine is one event as JSON.
type progressLine struct {
	Format string    `json:"format"`
	Time   time.Time `json:"time"`
	Event  string    `json:"event"`
	Stage  string    `json:"stage"`
	Wave   string    `json:"wave"`
	Step   int       `json:"step"`
	Steps  int       `json:"steps"`
	Device string    `json:"device"`
	Error  string    `json:"error"`

	RevertsNS int64 `json:"reverts_ns,omitempty"` // of a device with a pending auto-revert: when it reverts

	LeftAlone *aloneGroup `json:"left_alone,omitempty"` // of left_alone: devices that the plan has no step for

	// Of a gate:
	LinksProbed int                    `json:"links_probed,omitempty"` // full-size frames with their tag cross them, both ways
	NotProbed   []rollout.UnprobedLink `json:"not_probed,omitempty"`
	Probes      []string               `json:"probes,omitempty"` // what --probe has found, a sentence each
}

// leftAlone names the devices that a plan leaves as they are.
func (s *progress) leftAlone(p *plans.Plan) {
	for _, g := range leftAlone(p) {
		s.print(g.String())
		if s.json {
			s.err = errors.Join(s.err, printLine(s.w, progressLine{Format: "csig.progress/v1", Time: time.Now().UTC(), Event: "left_alone", LeftAlone: &g}))
		}
	}
}

func (s *progress) report(p rollout.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.json { // the live block has these, too
		p.Stage, p.Wave, p.Device = untrusted.Text(p.Stage, maxShown), untrusted.Text(p.Wave, maxShown), untrusted.Text(p.Device, maxShown)
	}
	over := s.note(&p)
	var err error
	switch p.Event {
	case rollout.EventWatch, rollout.EventJudge, rollout.EventProve, rollout.EventVerify, rollout.EventHand:
		if s.live != nil {
			s.draw(over)
		}
		return
	}
	if s.live != nil {
		if text := s.summary(&p); text != "" {
			over = strings.TrimPrefix(over+"\n"+s.stamped(printableLines(text)), "\n")
		}
		s.draw(over)
	} else if s.json {
		line := progressLine{
			Format: "csig.progress/v1", Time: time.Now().UTC(), Event: string(p.Event), Stage: p.Stage, Wave: p.Wave,
			Step: p.Step, Steps: p.Of, Device: p.Device,
		}
		if p.Err != nil {
			line.Error = p.Err.Error()
		}
		line.RevertsNS = p.Reverts.Nanoseconds()
		line.LinksProbed, line.NotProbed, line.Probes = p.Judged.Links, p.Judged.NotProbed, p.Judged.Paths
		err = printLine(s.w, line)
	} else if text := s.text(p); text != "" {
		_, err = fmt.Fprintln(s.w, s.stamped(printableLines(text)))
	}
	s.err = errors.Join(s.err, err)
}

func (s *progress) text(p rollout.Progress) string {
	where := p.Stage + suffix("/", p.Wave)
	switch p.Event {
	case rollout.EventStart:
		return fmt.Sprintf("%s  %s …", where, p.Device)
	case rollout.EventAutoRevert:
		if p.Err != nil {
			return fmt.Sprintf("%s  %s has no auto-revert: %v", where, p.Device, p.Err)
		}
		return fmt.Sprintf("%s  %s reverts by itself after %v unless it is reached again", where, p.Device, p.Reverts)
	case rollout.EventUndoing:
		return fmt.Sprintf("%s  undoing %s …", where, p.Device)
	case rollout.EventDone:
		if p.Step == 0 { // of csig off
			return fmt.Sprintf("%s  %s done", p.Stage, p.Device)
		}
		return fmt.Sprintf("%s  %s done, read back as planned (step %d of %d)", where, p.Device, p.Step, p.Of)
	case rollout.EventProve:
		text := fmt.Sprintf("%s  %s: waiting up to %v for its dead-man to fire once", where, p.Device, p.Within)
		if p.Err != nil {
			text += ": " + p.Err.Error()
		}
		return text
	case rollout.EventProved:
		return fmt.Sprintf("%s  %s: its dead-man has fired, as it has to: within %v without the agent", where, p.Device, p.Within)
	case rollout.EventUndone:
		text := fmt.Sprintf("%s  %s as it was before step %d", where, p.Device, p.Step)
		if p.Err != nil {
			text += ", but " + p.Err.Error()
		}
		return text
	case rollout.EventFailed:
		text := fmt.Sprintf("FAILED: %v", p.Err)
		if s.removedInstead(&p) {
			text = fmt.Sprintf("refused, all is removed instead: %v", p.Err)
		}
		if slices.Contains(s.printed, text) { // a device may fail alike in each stage
			return ""
		}
		s.printed = append(s.printed, text)
		return where + "  " + text
	case rollout.EventGate:
		if errors.Is(p.Err, process.ErrInterrupted) || errors.Is(p.Err, context.Canceled) {
			return where + "  gate not finished: --resume runs it again"
		}
		if p.Err != nil {
			return where + "  gate CLOSED" // why is the command's error
		}
		return where + "  gate open: read back as planned, no new losses" + judgedText(&p.Judged)
	case rollout.EventRollback:
		return "rolling back"
	case rollout.EventEnd:
		text := "complete: " + count(s.before+s.done, "step")
		if s.before > 0 {
			text += fmt.Sprintf(", %d of them before this run", s.before)
		}
		return text
	}
	return ""
}

// removedInstead reports whether an agent refuses what csig off wants of it before the
// removal, as one with a file of its user does.
func (s *progress) removedInstead(p *rollout.Progress) bool {
	return s.command == "off" && p.Stage != rollout.StageRemove && vendors.IsPermanent(p.Err)
}

// summary is an event in the lines that stay on a terminal: what concerns a
// single device is in the live block while it goes well.
func (s *progress) summary(p *rollout.Progress) string {
	switch p.Event {
	case rollout.EventAutoRevert, rollout.EventUndone:
		if p.Err == nil {
			return ""
		}
	case rollout.EventStart, rollout.EventUndoing, rollout.EventDone, rollout.EventProved:
		return ""
	}
	return s.text(*p)
}

// judgedText is what a gate has found besides.
func judgedText(j *rollout.Judgement) string {
	text := ""
	if j.Links > 0 {
		text = fmt.Sprintf(", full-size tagged frames cross %s both ways", count(j.Links, "link"))
	}
	if j.Silent > 0 {
		text += ", " + count(j.Silent, "port") + " without a live signal"
	}
	for _, path := range j.Paths {
		text += "\n          probe " + path
	}
	// One reason often holds for many links.
	for _, alike := range findings.Alike(j.NotProbed, func(u rollout.UnprobedLink) string { return u.Reason }) {
		var links []string
		for _, u := range alike {
			links = append(links, u.Link)
		}
		text += fmt.Sprintf("\n          not probed: %s: %s", someOf(links, 3), alike[0].Reason)
	}
	return text
}
