package findings

import "strings"

// Code is what kind of finding it is: a short stable word for programs.
type Code string

// Meaning is a code with what it means, for people.
type Meaning struct {
	Code    Code
	Meaning string
}

var meanings []Meaning

// Codes are all codes, in the order of docs/findings.md.
func Codes() []Meaning { return meanings }

func code(c Code, meaning string) Code {
	for _, m := range meanings {
		if m.Code == c {
			panic("two findings have the code " + string(c))
		}
	}
	meanings = append(meanings, Meaning{c, strings.TrimSpace(meaning)})
	return c
}

// Reaching a device, and its state.
var (
	NotReached    = code("not-reached", "the device cannot be asked: it does not answer, refuses, or csig does not know how to reach it")
	NoAgent       = code("no-agent", "no agent drives the device yet: csig read it without one, and csig apply needs one")
	CannotUpdate  = code("cannot-update", "the device cannot update tags at present, and its fleet file gives it no other level")
	LeftAlone     = code("left-alone", "csig sets up nothing on the device: it has no driver for the platform, or the device does not answer")
	InternalError = code("internal-error", "csig failed at the device because of a fault of its own: please report it")
	RevertPending = code("revert-pending", "a change of the device waits for its confirmation or its auto-revert")
	SetupDamaged  = code("setup-damaged", "the setup on the device is not as csig left it")
	PortsGone     = code("ports-gone", "the setup names ports that the device no longer has")
	NoSuchPort    = code("no-such-port", "the fleet file names ports that the device does not have")
	StaysAfterOff = code("stays-after-off", "something of csig's setup stays on the device after csig off")
	PortIssue     = code("port-issue", "the device's own configuration of a port is in the way of tags")
	SetupRefused  = code("setup-refused", "the device's driver refuses the setup")
	ConfigRefused = code("config-refused", "the device's daemon cannot run the configuration that the fleet file asks for")
	NoRollback    = code("no-rollback", "a rollback could not restore what the device has now")
)

// Levels of support.
var (
	LevelUnknown     = code("level-unknown", "the level of the device is not known")
	LevelWrong       = code("level-wrong", "the device cannot do what the level in the fleet file says")
	LevelUnproven    = code("level-unproven", "the fleet file gives a level that csig cannot check")
	TPIDNotPossible  = code("tpid-not-possible", "the device updates tags, but not with the TPID of the domain")
	RulesRefused     = code("rules-refused", "the device cannot hold the rules of a port")
	RulesDegraded    = code("rules-degraded", "the device holds the rules of a port, and does less with them than the draft asks")
	StripNotPossible = code("strip-not-possible", "a port has to strip tags, and the device cannot")
	StripIncomplete  = code("strip-incomplete", "a port strips, but not every tag")
	FactsNotUsed     = code("facts-not-used", "facts that the fleet file gives the device are not of its model, software or TPID")
	Experimental     = code("experimental", "the driver of the platform never ran on hardware, and no facts show that its rules are right on the model")
	UpdatesRefused   = code("updates-refused", "updates of the device are changes of its configuration, or nothing would withdraw them, and the fleet file does not allow that")
	UpdatesCost      = code("updates-cost", "updates of the device are changes of its configuration, each with lines in accounting logs")
	StripsItself     = code("strips-itself", "a port strips without csig, as the fleet file says")
)

// Links, hosts and paths.
var (
	PeerUnknown      = code("peer-unknown", "the fleet file does not say what is at the other end of ports")
	PeerDiscards     = code("peer-discards", "a port sends tags to a device that discards tagged frames")
	HostWithoutCSIG  = code("host-without-csig", "a port sends tags to a host that does not read them")
	SenderAtDiscard  = code("sender-at-discard", "hosts send tags to a device that discards tagged frames")
	HostsStillSend   = code("hosts-still-send", "hosts may send tags after csig is off")
	FenceNotPossible = code("fence-not-possible", "hosts would receive tags while paths change, because csig cannot make a port strip")
	OutsideTarget    = code("outside-target", "a plan for some devices depends on one that is not among them: an error where the others are not safe without it, a warning where their ports to hosts keep stripping until it is set up")
	MTUTooSmall      = code("mtu-too-small", "full-size frames with their tags do not fit")
	MTUUnknown       = code("mtu-unknown", "csig cannot check whether full-size frames with their tags fit")
)

// Profiles and TPIDs.
var (
	TPIDNotRetired  = code("tpid-not-retired", "the TPID changes, and no switch would strip the old one")
	OneTPIDOnly     = code("one-tpid-only", "the TPID changes, and a platform strips one TPID at a time")
	TooManyTPIDs    = code("too-many-tpids", "a device has to strip more TPIDs than it can")
	RetiredNotStrip = code("retired-not-stripped", "hosts receive tags of a retired TPID from a device that csig does not set up")
	ProfilesMixed   = code("profiles-mixed", "devices of one path would have different profiles")
	ReservedVIDs    = code("reserved-vids", "tags of the domain have VIDs that devices keep for themselves")
)

// What a device does with tagged frames.
var (
	CheckByHand   = code("check-by-hand", "csig cannot see it: check it on the device")
	NoIPHeader    = code("no-ip-header", "the device does not find the IP header behind the tag")
	HashTakesTag  = code("hash-takes-tag", "hashes (ECMP, LAG, RPS) take in the tag: packets of a flow may be reordered")
	DEIPrecedence = code("dei-drop-precedence", "the device takes R (DEI) of a tag for drop precedence")
	DEILost       = code("dei-lost", "the device does not forward R (DEI) of a tag")
	PCPQueue      = code("pcp-queue", "the PCP of a tag chooses the queue, or is remarked")
	VIDBridges    = code("vid-bridges", "the VID of a tag, which is the signal, chooses the VLAN that frames are bridged in")
	VIDsDropped   = code("vids-dropped", "frames whose tag has some VIDs of the domain do not get past the device, as was measured")
	NotRouted     = code("not-routed", "tagged frames that the device routes lose their tag or are lost")
)

// Schedules.
var (
	ScheduleTooFast  = code("schedule-too-fast", "the device is sampled more often than its rules can be updated; an error where no update would end before its lease")
	IntervalsDiffer  = code("intervals-differ", "devices of the domain measure over different Δt")
	IntervalTooShort = code("interval-too-short", "Δt is shorter than the time between two refreshes of the counters")
)

// States of an agent's ports.
var (
	CountersFail      = code("counters-fail", "the counters of the port cannot be used")
	CountersInexact   = code("counters-inexact", "the counters miss some bits: the reason says which")
	BucketsMisfit     = code("buckets-misfit", "the signal cannot tell the loads of the port apart: its capacity is within the first bucket of the table, or far above the last")
	SlowLink          = code("slow-link", "the device reports less speed of the port than the fleet file has: the smaller one is its capacity")
	CountersStopped   = code("counters-stopped", "no counter of the device has moved for longer than its refreshes take")
	CountersUnchanged = code("counters-unchanged", "the reading repeats the one before: the source has not refreshed")
	CountersRestarted = code("counters-restarted", "the counters restarted, or changed their meaning, inside the window")
	Measuring         = code("measuring", "there is no complete window yet")
	LinkDown          = code("link-down", "the link of the port is down")
	NoCurrentReading  = code("no-current-reading", "the last measurement is too old to be used")
	NotProgrammed     = code("not-programmed", "the agent has programmed nothing yet, or nothing that was read back from the device")
	LeaseEnded        = code("lease-ended", "the lease ended before it was renewed")
	NoLease           = code("no-lease", "the device cannot expire rules: the last value stays advertised")
	RulesLost         = code("rules-lost", "the rules of csig are not on the device, or not as they should be")
	PlaneUnknown      = code("data-plane-unknown", "the lease has ended and the device was not looked at since, or rules have to be restored again and again")
	NotTaken          = code("not-taken", "the device did not take the rules of the port")
)

// What an agent's device does less than fully.
var (
	StartRefused   = code("start-refused", "a real run would refuse to start (of an agent with --dry-run)")
	Update         = code("update", "the device updates tags with restrictions, or not at all")
	Strip          = code("strip", "the device strips tags with restrictions, or not at all")
	Lease          = code("lease", "the device expires rules with restrictions, or not at all")
	WideTags       = code("wide-tags", "the device updates wide tags with restrictions, or not at all")
	TagDepth       = code("tag-depth", "the device updates tags behind VLAN tags with restrictions, or not at all")
	PassedBy       = code("passed-by", "frames go around the data plane that measures by itself: the port falls back")
	NativePossible = code("native-possible", "the device could measure in its data plane, and its signal be as old as an interval")
	RunsBefore     = code("runs-before", "another BPF program runs before csig's at a port, and may keep frames from it")
	Coarse         = code("coarse-intervals", "the interval of a data plane that measures by itself is shorter than one frame may take")
	NotCounted     = code("not-counted", "a per-frame signal of the profile cannot be read from counters")
	SelfTest       = code("self-test", "the self-test of the data plane: its verdict")
)

// What the hosts of a mesh find.
var (
	MeshUnreachable = code("mesh-unreachable", "probes without a tag are lost between hosts, too")
	MeshDropsTags   = code("mesh-drops-tags", "probes with a tag are lost between hosts, and those without arrive")
	MeshStripsTags  = code("mesh-strips-tags", "tags are taken off between hosts that are to have them")
	MeshDelaysTags  = code("mesh-delays-tags", "probes with a tag are delayed, and those without are not")
	MeshReorders    = code("mesh-reorders-tags", "probes with a tag and without change places on their way")
	MeshStale       = code("mesh-stale", "tags say that a switch has no current signal")
	MeshOffPath     = code("mesh-off-path", "a tag has the locator of a port that is on no shortest path by the fleet file")
	MeshNamesIdle   = code("mesh-names-idle", "hosts read less bandwidth at a port than its agent writes")
	MeshMissesFull  = code("mesh-misses-full", "hosts read more bandwidth than the agent of a port on their way writes")
	MeshNoAgent     = code("mesh-no-agent", "the agent of a switch between hosts does not answer, or completes no cycle")
	MeshLoses       = code("mesh-loses", "one in eight probes between hosts is lost, with tags or without")
	MeshFamilies    = code("mesh-families", "hosts of a mesh have addresses of IPv4 and of IPv6, and do not probe each other")
	MeshUnwritten   = code("mesh-unwritten", "no switch has written into a probe since the mesh began")
	MeshHostSilent  = code("mesh-host-silent", "a host of the mesh sends no rows")
)
