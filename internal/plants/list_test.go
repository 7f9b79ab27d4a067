package plants_test

// Where plants grow.
const (
	machine    = "internal/agent/machine"
	workers    = "internal/agent/workers"
	detection  = "internal/agent/detection"
	joining    = "internal/agent/joining"
	runtime    = "internal/agent/runtime"
	checkpoint = "pkg/checkpoint"
	chunkstore = checkpoint + "/chunkstore"
	capture    = checkpoint + "/capture"
	pipeline   = checkpoint + "/pipeline"
	replicator = checkpoint + "/replicator"
	etcd       = "pkg/store/etcd"
	storePkg   = "pkg/store"
	membership = "pkg/membership"
	verdict    = "pkg/membership/verdict"
	rendezvous = "pkg/rendezvous"
	plan       = "pkg/rendezvous/plan"
	reclaim    = "pkg/rendezvous/reclaim"
	follow     = "pkg/rendezvous/follow"
	txn        = "pkg/rendezvous/txn"
	scaling    = "pkg/scaling"
	workerPkg  = "internal/worker"
	ensemble   = "internal/node/ensemble"

	registry = membership + "/registry.go"
)

// plants begins with those that a change must not get past; [Cn] are the counterexamples of docs/PROTOCOL.md.
var plants = []plant{
	{"C2: a commit without the fence", checkpoint + "/record.go",
		`guards := []store.Guard{schema.FenceIs(r.Job, r.uid(), h.Generation), store.Unchanged(r.Job.Head(), seen.Rev),
		store`, `guards := []store.Guard{store.Unchanged(r.Job.Head(), seen.Rev),
		store`, checkpoint, "TestCommit"},
	{"parts: of another generation count", checkpoint + "/parts/parts.go", `if at >= 0 && r.Generation == g {`, `if at >= 0 {`, checkpoint + "/parts", "TestChoose"},
	{"parts: of an earlier incarnation count", checkpoint + "/parts/parts.go", `return m.Same(r.Node) })
		if at`, `return m.Node == r.Node.Node })
		if at`, checkpoint + "/parts", "TestChoose"},
	{"parts: a step that was saved twice counts", checkpoint + "/parts/parts.go", `if p == nil || p.Again {`, `if p == nil {`, checkpoint + "/parts", "TestChoose"},
	{"parts: two nodes with different bytes", checkpoint + "/parts/parts.go", `(was.Size != f.Size || !slices.Equal(was.Chunks, f.Chunks))`, `was.Size != f.Size && !slices.Equal(was.Chunks, f.Chunks)`, checkpoint + "/parts", "TestPartsThatDoNotFit"},
	{"parts: a shard that .metadata names is not missed", checkpoint + "/parts/formats.go", `!there[want] {`, `!there[want] && false {`, pipeline, "TestAShardIsMissing"},
	{"parts: a part is salvaged as a checkpoint", checkpoint + "/salvage.go", ` && !m.Part {`, ` {`, pipeline, "TestAPartIsNotSalvaged"},
	{"parts: a captured part that was left is committed", pipeline + "/left.go", `!named && !p.Part {`, `!named {`, pipeline, "TestAPartIsNotSalvaged"},
	{"parts: a part in the directory is committed", pipeline + "/left.go", `if p != nil && parts.Format(pathsIn(p)) == "" {`, `if p != nil && parts.Format(pathsIn(p)) != "x" {`, pipeline, "TestAPartIsNotSalvaged"},
	{"parts: the newest part is removed before it is committed", checkpoint + "/manifest/keep.go", `newest = k.parts[p.Of]`, `newest = k.newest`, pipeline, "TestAPartOutlivesNewerCommits"},
	{"parts: old parts are kept for ever", checkpoint + "/manifest/keep.go", `case p.Before(before):`, `case false:`, pipeline, "TestPartsWithoutOthersAreBounded"},
	{"parts: copies of parts of others are kept for ever", checkpoint + "/manifest/keep.go", `old = append(old, of[min(MostParts, len(of)):]...)`, `_ = of`, pipeline, "TestPartsWithoutOthersAreBounded"},
	{"parts: a committed part is dropped as an old one", checkpoint + "/manifest/keep.go", `case !p.Part || needed[h]:`, `case !p.Part || needed[h] && false:`, pipeline, "TestPartsAreSpreadInARing"},
	{"parts: a part with one copy is committed", pipeline + "/ring.go", `return !enough(nodes, p, l.replicator.Replicas)`, `return len(p) == 0`, pipeline, "TestAPartWithTooFewCopies"},
	{"parts: a node that keeps no parts counts as a holder", pipeline + "/ring.go", `case errs[i] != nil:`, `case false:`, pipeline, "TestAPartWithTooFewCopies"},
	{"parts: what is kept in parts is not acknowledged by its parts", chunkstore + "/partial.go", `if !held || !at.Part {`, `if held && !at.Part {`, chunkstore, "TestHoldParts"},
	{"parts: the last checkpoint stays in parts", pipeline + "/gather.go", `return l.complete(ctx)
}`, `return nil
}`, pipeline, "TestTheLastCheckpointIsBroughtTogether"},
	{"parts: each copy goes to the same node", checkpoint + "/transfer/ring.go", `machines[(home+k)%len(machines)]`, `machines[k%len(machines)]`, checkpoint + "/transfer", "TestRing"},
	{"section 10: some parts are a checkpoint", "pkg/rendezvous/reclaim/parts.go", `return !there[h.Manifest][p.Manifest] })`, `return there[h.Manifest] == nil })`, "pkg/rendezvous/reclaim", "TestDecideOfParts"},
	{"parts: a late report is believed", checkpoint + "/reports.go", `schema.FenceIs(r.Job, r.uid(), g), store.Unchanged(key, seen)`, `schema.FenceIs(r.Job, r.uid(), g)`, pipeline, "TestALateReportChangesNothing"},
	{"parts: a report behind the fence", checkpoint + "/reports.go", `schema.FenceIs(r.Job, r.uid(), g), store.Unchanged(key, seen)`, `store.Unchanged(key, seen)`, pipeline, "TestALateReportChangesNothing"},
	{"parts: a node ends before its last part is committed", pipeline + "/gather.go", `len(s.pending) > 0 && time.Since(began) < partPatience`, `false && time.Since(began) < partPatience`, pipeline, "TestTheLastSaveOfAllNodes"},
	{"parts: what was put back of others is saved again", capture + "/watcher.go", `workers.Share == Whole && (!e.numbered()`, `(!e.numbered()`, pipeline, "TestTheNextGenerationSavesItsOwnParts"},
	{"a directory is taken with the tracker file of the next save", capture + "/evidence.go", `(state != Running || e.tracked)`, `state != Running`, capture, "TestFrameworks"},
	{"parts: those of a newer checkpoint that came too late are removed", chunkstore + "/late/late.go", `|| slices.Contains(inParts, h.Manifest) {`, `|| inParts == nil && false {`, pipeline, "TestPartsThatCameTooLateAreOffered"},
	{"parts: a part is sent before all of it is here", replicator + "/spread.go", `if save.Part || len(to) == 0 {`, `if len(to) == 0 {`, pipeline, "TestAPartIsOfferedBeforeItIsSent"},
	{"own: shards that several ranks read are left out", checkpoint + "/parts/own.go", `len(names[family[i]]) == workers && `, ``, checkpoint + "/parts", "TestOwn"},
	{"own: the shards of a save of another size are taken by rank", checkpoint + "/parts/own.go", `whole.WorldSize != r.Workers || len(all) != r.Nodes {`, `len(all) < r.Nodes {`, checkpoint + "/parts", "TestOwn"},
	{"own: what rank 0 saved for all is left out", checkpoint + "/parts/own.go", `need.Parts, shared = append(need.Parts, at), f.Path`, `shared = f.Path`, pipeline, "TestANodeLoadsItsOwnParts"},
	{"own: a store that is lost does not find the parts", replicator + "/own.go", `Partial{Generation: x.copier.Generation, Manifest: x.raw})`, `Partial{Generation: x.copier.Generation, Manifest: x.parts[0].raw})`, pipeline, "TestANodeLoadsItsOwnParts"},
	{"own: a part that the record does not know of is lost", replicator + "/prepare.go", `if parts == nil {
		return last`, `if last != nil {
		return last`, pipeline, "TestANodeLoadsItsOwnParts"},
	{"own: a planned end leaves the checkpoint in parts", pipeline + "/ring.go", `if err != nil || head.Parts == nil {`, `if err != nil || head.Parts == nil || !l.made[head.Manifest] {`, pipeline, "TestOwnPartsAreBroughtTogether"},
	{"own: a planned end before the first save leaves the checkpoint in parts", pipeline + "/gather.go", `return l.complete(ctx) // no node waits for this one`, `return nil`, pipeline, "TestOwnPartsAreBroughtTogether"},
	{"servers: one stays beside a new one of another node", ensemble + "/stay.go", `if slices.Equal(before, c.Team.Found(roles.Server)) {`, `if len(before) > 0 {`, ensemble, "TestNoServerStays"},
	{"servers: one stays beside a new one at the address of before", "pkg/roles/place.go", `{ return t.found[r] }`, `{ return t.at[r] }`, ensemble, "TestNoServerStays"},
	{"servers: a new one reports the port of the one before", "internal/node/ports.go", `last == found[i] {`, `false && last == found[i] {`, "internal/node", "TestPortsOfNewServers"},
	{"servers: new ones start where they were to stay", "internal/node/workers.go", `if s.Unprepared && w.job`, `if false && w.job`, "internal/node", "TestNewServersInPlaceOfSomeThatWereToStay"},
	{"servers: one that has ended stays", ensemble + "/stay.go", `if !e.paused || ended || `, `if !e.paused || false && ended || `, ensemble, "TestNoServerStays"},
	{"servers: a trainer that fails is started again for ever", ensemble + "/alone.go", `if a.used >= c.Restarts {`, `if a.used > 1000 {`, ensemble, "TestATrainerFailsForEver"},
	{"servers: the restarts of trainers alone do not come back", ensemble + "/alone.go", `now.Sub(a.last) >= c.RefillAfter`, `false && now.Sub(a.last) >= c.RefillAfter`, ensemble, "TestRestartsAloneComeBack"},
	{"servers: they stay beside a lost one", rendezvous + "/job.go", `if serves != there || serves && !next`, `if serves != there || false && !next`, rendezvous, "TestKeepsServers"},
	{"C1: a commit between plan and propose is lost", txn + "/propose.go",
		`store.Unchanged(r.Job.Head(), seen.Head.Rev),`, ``, rendezvous, "TestGuards/memory"},
	{"C17: a suspicion counts though its watcher was not asked", verdict + "/verdict.go",
		`if at, ok := f.ev.Holds[m.Node][x.By]; ok && f.now.Sub(at) < f.l.Fresh {`, `if true {`, verdict, "TestJudge"},
	{"section 10: a watch of a store that was set back stays open", etcd + "/watch.go", `case a.Header.Revision < w.last:`, `case false:`, etcd, "TestStore"},
	{"C9: a late event brings an old world back", machine + "/observe.go",
		`if known != nil && (w.Generation < known.Generation || `, `if known != nil && (`, machine, "TestStories"},

	{"G4: Ready before the workers that stay have left", workers + "/workers.go", `return w.Idle() || g.Paused && g.closed`, `return w.Idle() || g.Halt == action.HaltPaused`, runtime, "TestSchedulesOfWorkersThatStay"},
	{"G4: workers that do not leave are waited for without end", workers + "/stay.go", `w.Phase.Ended() || w.Rollback > g.World.Generation || g.pauseIsOver(f, out) {`, `w.Phase.Ended() || w.Rollback > g.World.Generation {`, machine, "TestStories"},
	{"G2: a state of before a rollback stays", workers + "/stay.go", `w.Phase.Ended() || w.Rollback > g.World.Generation || g.pauseIsOver(f, out) {`, `w.Phase.Ended() || g.pauseIsOver(f, out) {`, machine, "TestStatesOfBeforeARollbackAreGivenUp"},
	{"G2: a commit of workers that stay without the fence", checkpoint + "/record.go", `guards := []store.Guard{schema.FenceIs(r.Job, r.uid(), h.Generation), store.Unchanged(r.Job.Head(), seen.Rev),`, `guards := []store.Guard{store.Unchanged(r.Job.Head(), seen.Rev),`, runtime, "TestSavesOfWorkersThatStay"},
	{"G3: a state in memory does in place of a newer checkpoint", workers + "/stay.go", `return from == nil || from.Step == nil || *w.Group.held >= *from.Step`, `return from == nil || from.Step == nil || true`, machine, "TestStatesThatAreOlderThanTheCheckpoint"},
	{"G4: an answer of an older generation counts", "internal/handover/group.go", `s.Left != nil && s.Left.Generation == g.generation`, `s.Left != nil`, "internal/handover", "TestAnAnswerOfAnOlderGeneration"},
	{"G2: a rollback is forgotten with its generation", plan + "/rollback.go", `return p.w.Rollback`, `return 0`, plan, "TestRollbackIsRemembered"},
	{"a warm worker that does not fit becomes a worker", workerPkg + "/warm.go", `g.fits(c.order, w) && c.take(w.Env)`, `c.take(w.Env)`, workerPkg, "TestWarmProcessesThatDoNotFit"},
	{"processes outlive a guardian that was not needed", workerPkg + "/group.go", `	if g.warm {
		g.takeOver()`, `	if false {
		g.takeOver()`, workerPkg, "TestWarmProcessesEnd"},
	{"a worker that ended is handed a World", workers + "/apply.go", `	g.canStay = false
	if e.Ours {`, `	if e.Ours {`, machine, "TestStories"},
	{"a world waits for a node whose workers start", plan + "/assign.go", `return warming(s, n) || out(n)`, `return out(n)`, rendezvous, "TestANodeWhoseWorkersStart"},
	{"workers that wait for their first world are ended when it comes", workers + "/first.go", `!g.Paused && late`, `late`, machine, "TestStories"},
	{"G3: new workers in place of some that stayed begin without the checkpoint", workers + "/start.go", `		Unprepared: w.inMemory}`, `	}`, machine, "TestStories"},
	{"a last call after a member left", plan + "/waiting.go", `cause == rendezvous.CauseDrain && p.survivors() >= p.s.Least()`, `false`, rendezvous, "TestPlan"},

	// Guards of requests.
	{"create over a job that is there", txn + "/job.go", `store.Absent(r.Job.Job()), store.NoneBelow(r.Job.AllClaims())`, `store.NoneBelow(r.Job.AllClaims())`, rendezvous, "TestGuards/memory"},
	{"section 10: a job from scratch, over a claim of this moment", txn + "/job.go", `store.Absent(r.Job.Job()), store.NoneBelow(r.Job.AllClaims())`, `store.Absent(r.Job.Job())`, rendezvous, "TestGuards/memory"},
	{"section 10: a job from scratch, over claims", joining + "/lost.go", `if len(s.Claims) > 0 {`, `if false {`, runtime, "TestClaimsThatEndAreNoLeaveToBegin"},
	{"section 10: the job is made again twice", txn + "/remake.go", `[]store.Guard{store.Unchanged(r.Job.Job(), jobRev(x.Seen)), mine, store.Absent(r.Job.Removed(was))}`,
		`append([]store.Guard{mine}[:0], store.Absent(r.Job.Removed(was)))`, rendezvous, "TestRemake"},
	{"section 10: the job is made again twice in a store that was wiped once more", txn + "/remake.go", `What: store.ValueIs, Value: string(schema.Encode(me))}`,
		`What: store.RevIs, Rev: me.Rev}`, rendezvous, "TestRemakeThatComesLate"},
	{"section 10: a late request makes the job again over the newer claim of a node", txn + "/remake.go", `guards = append(guards, store.Unchanged(r.Job.Claim(c.Node), c.Rev))`,
		`_ = c`, rendezvous, "TestRemakeThatComesLateIntoOlderClaims"},
	{"section 10: a late request makes the job again over the claim of one more node", txn + "/remake.go", `[]store.Guard{store.NoneNewer(r.Job.AllClaims(), seen.Rev)}`,
		`[]store.Guard{}`, rendezvous, "TestRemakeThatComesLateIntoOlderClaims"},
	{"section 10: a claim of before the look at the disk comes late and counts", txn + "/remake.go", `, store.Unchanged(key, x.Before)}`, `}`, rendezvous, "TestClaimThatComesLate"},
	{"events without bound within one generation", "pkg/history/trim.go", `due := t.written >= TrimEvery`, `due := false`, pipeline, "TestEventsStayBoundedWithinOneGeneration"},
	{"section 10: a commit is noted a moment after it was acknowledged", chunkstore + "/retain.go", `all := append(slices.Clone(s.heads), h)`, `all := slices.Clone(s.heads)`, pipeline, "TestCommitsAreNotedAtOnce"},
	{"section 10: the number of a generation is noted after it was asked for", runtime + "/effects.go", `if err := l.Disk.SetSeen(a.Me.Node, step.World.Generation); err != nil {`, `if err := error(nil); err != nil {`, runtime, "TestANumberIsNotGivenTwice"},
	{"G2: what an older generation left is committed for the newest", capture + "/left.go", `was.Generation != stamp.Generation || was.UID != stamp.UID {`, `was.UID != stamp.UID {`, pipeline, "TestCommitLeftInTheDirectory"},
	{"what was left is committed though somebody went back", pipeline + "/left.go", `if p, ok := held[c.Manifest]; ok && at.Before(p) {`, `if p, ok := held[c.Manifest]; ok && at.Before(p) && c.Number == 0 {`, pipeline, "TestCommitLeft"},
	{"section 10: a copy on a spare is not waited for", reclaim + "/reclaim.go", `len(missing)+len(spares) >= copies`, `len(missing) >= copies`, reclaim, "TestDecide"},
	{"section 10: a spare that may have gone on is not waited for", reclaim + "/reclaim.go", `case wait == ForAll && len(all) > 0:`, `case wait == ForAll && len(missing) > 0:`, reclaim, "TestDecide"},
	{"section 10: claims of before the store was set back count", "internal/recovery/claimant.go", `if k.settling.left() > 0 {`, `if false {`, runtime, "TestSetBackToClaims"},
	{"section 10: a checkpoint that the job went back to keeps its old number", reclaim + "/family.go", `mine[i] = raised(mine[i], numbers)`, `mine[i] = raised(mine[i], nil)`, reclaim, "TestDecide"},
	{"section 10: a store that did not answer for a time is believed at once", "internal/recovery/settling.go", `func (x *settling) missed() { x.until = time.Time{} }`, `func (x *settling) missed() {}`, runtime, "TestSetBackToClaimsThatACutNodeSaw"},
	{"section 10: what a node of the former job has counts nothing", "internal/recovery/claimant.go", `return !s.Job.Follows(c.Job.UID) || !s.Claimed(s.Job)`, `return true`, runtime, "TestSetBackAndTheCopyIsOfTheFormerJob"},
	{"section 10: claims that end with a store that is set back are over", joining + "/lost.go", `limit, cancel := context.WithTimeout(ctx, j.Settle)`, `limit, cancel := context.WithTimeout(ctx, 0)`, runtime, "TestSetBackOnceMoreWhileItIsClaimed"},
	{"section 10: a claim is not written again into a store that was set back", "internal/recovery/claimant.go", `k.wrote = nil // the claim was in another store`, `_ = k.wrote`, runtime, "TestSetBackToAnOlderClaim"},
	{"section 10: a copy of which its node did not hear that it was committed is older than its number", reclaim + "/reclaim.go", `best.Sequence > 0 && c.Sequence > 0 {`, `false {`, reclaim, "TestDecide"},
	{"section 10: a capture that the job went back from is the newest", reclaim + "/reclaim.go", `b.Generation == g && c.Newest.Generation == g &&`, `b.Generation == c.Newest.Generation &&`, reclaim, "TestDecide"},
	{"section 10: a job that was made again has no nodes until it has a World", reclaim + "/reclaim.go", `if last.World == 0 { // they`, `if last.Count < 0 { // they`, runtime, "TestWipedAndOneKnowsNoWorld"},
	{"section 10: a commit that a node knows of counts only when it has looked at its disk", reclaim + "/reclaim.go", `	known := newestKnown(mine) //`, `	known := newestKnown(nil) //`, reclaim, "TestDecide"},
	{"section 10: a node that comes late claims what the job went on without", joining + "/lost.go", `if j.state.late, err = j.comesLate(ctx, s, name); j`, `if _, err = j.comesLate(ctx, s, name); j`, runtime, "TestNodeThatComesLateOffersWhatItKnows"},
	{"section 10: a member that is cut from the store goes on from what it shows", joining + "/late.go", `if n != nil && n.Same(r) {`, `if n == nil || n.Same(r) {`, runtime, "TestMemberThatIsCutFromTheStoreDoesNotGoOn"},
	{"section 10: the registrations that a store shows when it was set back are those of now", joining + "/late.go", `> j.LeaseTTL+time.Second {`, `>= 0 {`, runtime, "TestMemberThatIsCutFromTheStoreDoesNotGoOn"},
	{"section 10: a job whose head is on no disk goes on", joining + "/late.go", `whole.HeadIsHere(), err`, `(true || whole.HeadIsHere()), err`, runtime, "TestNodeThatComesToAJobThatCannotGoOn"},
	{"section 10: an inventory of before the store was set back counts", rendezvous + "/snapshot.go", `s.Held[n.Node].Rev) > n.Rev`, `s.Held[n.Node].Rev) > 0`, rendezvous, "TestHeadIsHere"},
	{"section 10: what came late counts under its number", chunkstore + "/late/late.go", `json.Marshal(heads[:above])`, `json.Marshal(heads)`, checkpoint, "TestComeLate"},
	{"section 10: a capture hides the commit before it", reclaim + "/family.go", `if read != nil && c.Newest == nil && len(c.Heads) > 0 {`, `if false {`, reclaim, "TestDecideAfterTwoLosses"},
	{"section 10: spares are not written down", machine + "/lost.go", `		c.Spares = append(c.Spares, r.Node)
`, `		_ = r
`, runtime, "TestWipedAndACopyIsOnASpare"},
	{"section 10: a spare that was reported lost is waited for", machine + "/lost.go", `!left && !o.snap.Missed[was.Incarnation]`, `!left`, runtime, "TestWipedAfterASpareWasLost"},
	{"section 10: a spare without a registration is not waited for", machine + "/lost.go", `!left && !o.snap.Missed[was.Incarnation]`, `left && false`, runtime, "TestWipedWhileASpareHasNoLease"},
	{"section 10: a claim counts before its node looked at its disk", reclaim + "/reclaim.go", `func(c rendezvous.Claim) bool { return !c.Looked }`, `func(c rendezvous.Claim) bool { return false }`, reclaim, "TestDecide"},
	{"section 10: a store that is set back is believed", rendezvous + "/behind.go", `return s.Fence < c.Generation || s.Head.Number < c.Known.Number ||`, `return`, runtime, "TestSetBackWhileAllWereDead"},
	{"section 10: agents that are alive do not notice a store that is set back", machine + "/observe.go", `o.behind = o.behind || m.isBehind(&e)`, `o.behind = false`, runtime, "TestSetBackStore"},
	{"section 10: a node that saw nothing does not join the claimants", machine + "/observe.go", ` || s.Claimed(m.self.job)`, ``, runtime, "TestSetBackAndOneSawNothing"},
	{"section 10: an older store has checkpoints removed", replicator + "/behind.go", `if head.Number < known {`, `if false {`, pipeline, "TestNothingIsRemovedOrCommittedWhileTheStoreIsBehind"},
	{"section 10: the job is made again over what moved meanwhile", txn + "/remake.go", `if x.Seen.Job != nil {`, `if false {`, rendezvous, "TestRemakeOverAnOlderStore"},
	{"section 10: a generation is proposed in a store that is behind", txn + "/propose.go", `store.NoneBelow(r.Job.AllClaims()), // a`, `// a`, rendezvous, "TestRemakeOverAnOlderStore"},
	{"section 10: what was asked in the store that was lost passes in the next", txn + "/txn.go", `append([]store.Guard{fence}, req.If...)`, `append([]store.Guard{}, req.If...)`, rendezvous, "TestWipedStores"},
	{"section 10: the fence falls", reclaim + "/remake.go", `max(r.Fence, c.Generation, c.World)`, `max(r.Fence, c.World)`, reclaim, "TestDecide"},
	{"section 10: a node waits for the first store that was lost alone", joining + "/lost.go", `lost := state.cluster != 0 && (state.cluster != s.Cluster || s.Rev < state.rev)`, `lost := false`, runtime, "TestWipedAgainWhileANewNodeWaits"},
	{"section 10: a node stays in a job that was made again twice", rendezvous + "/job.go", `j.Time.After(was.Time) && slices`, `false && slices`, runtime, "TestWipedAgainAfterOneHeardOfTheRemake"},
	{"section 10: a removed job comes back", "internal/recovery/claimant.go", `if removed {`, `if false && removed {`, runtime, "TestRemovedIsNotClaimed"},
	{"section 10: what only a missing node has is given up", reclaim + "/reclaim.go", `if len(away) > 0 && (best == nil`, `if false && (best == nil`, reclaim, "TestDecide"},
	{"section 10: what is damaged is claimed", checkpoint + "/salvage.go", `if len(bad) > 0 {`, `if len(bad) < 0 {`, checkpoint, "TestSalvage"},
	{"section 10: what came too late is known to one process", chunkstore + "/late/late.go", `return dirfs.NewDisk(t, layout.Temp+"/late-").WriteFile(".", layout.Late, b)`, `_ = b
			return nil`, pipeline, "TestWhatCameTooLateIsOffered"},
	{"section 10: what came too late is removed", replicator + "/replicator.go", `err != nil || !offered {`, `err != nil || !offered && false {`, pipeline, "TestWhatCameTooLateIsOffered"},
	{"reopen of another end", txn + "/job.go", `			store.Unchanged(r.Job.World(), seen.World.Rev),
		},
		Then: []store.Write{
			store.Put(r.Job.Job(), schema.Encode(j)),`, `		},
		Then: []store.Write{
			store.Put(r.Job.Job(), schema.Encode(j)),`, rendezvous, "TestGuards/memory"},
	{"remove of a job with nodes", txn + "/job.go", `store.NoneBelow(r.Job.Nodes()), `, ``, rendezvous, "TestGuards/memory"},
	{"two wishes at once", txn + "/wish.go", `store.Unchanged(r.Job.Wish(), seen.Wish.Rev), store.Unchanged(r.Job.World(), worldRev)}`, `store.Unchanged(r.Job.World(), worldRev)}`, rendezvous, "TestGuards/memory"},
	{"two worlds of one generation", txn + "/propose.go", `	guards := []store.Guard{
		store.Unchanged(r.Job.World(), worldRev),`, `	_ = worldRev
	guards := []store.Guard{`, rendezvous, "TestGuards/memory"},
	{"a proposer that is registered no more", txn + "/propose.go", `would be lost
		store.Unchanged(r.Job.Node(me.Node), me.Rev),`, `would be lost`, rendezvous, "TestGuards/memory"},
	{"C5: evict whoever has the name", txn + "/propose.go", `guards = append(guards, r.isLost(x, me)...)
		writes`, `writes`, rendezvous, "TestGuards/memory"},
	{"C4: drop the absent without a look", txn + "/propose.go", `for _, x := range p.Dropped {`, `for _, x := range p.Dropped[:0] {`, rendezvous, "TestGuards/memory"},
	{"C15: propose over the last exit", txn + "/propose.go", `guards = append(guards, store.NoneNewer(r.Job.Exits(seen.World.Generation), seen.Rev))`, `_ = guards`, rendezvous, "TestGuards/memory"},
	{"C15: stop over the last exit", txn + "/phase.go", `if e.Phase == rendezvous.Stopped && seen.World != nil {`, `if false {`, rendezvous, "TestGuards/memory"},
	{"two turns of one world", txn + "/txn.go", `If:   append([]store.Guard{store.Unchanged(r.Job.World(), rev)}, with.If...),`, `If:   with.If,`, rendezvous, "TestGuards/memory"},
	{"two keepers both believe that they did it", txn + "/txn.go", `to.Turn = rand.Text()`, `_, to.Time = rand.Text(), time.Time{}`, rendezvous, "TestTwinSteps"},
	{"ready for a generation that is over", txn + "/member.go", `[]store.Guard{schema.FenceIs(r.Job, w.UID, w.Generation), store.Unchanged(r.Job.Node(me.Node), me.Rev)}`, `[]store.Guard{store.Unchanged(r.Job.Node(me.Node), me.Rev)}`, rendezvous, "TestGuards/memory"},
	{"C16: a victim of the stop is a failure", txn + "/member.go", `store.Unchanged(r.Job.World(), w.Rev), store.Unchanged(r.Job.Failure(w.Generation), known.Rev)`, `store.Unchanged(r.Job.Failure(w.Generation), known.Rev)`, rendezvous, "TestGuards/memory"},
	{"a failure is written over one that it did not see", txn + "/member.go", `store.Unchanged(r.Job.World(), w.Rev), store.Unchanged(r.Job.Failure(w.Generation), known.Rev)`, `store.Unchanged(r.Job.World(), w.Rev)`, rendezvous, "TestFailuresAtOnce"},
	{"a victim is blamed for being first", rendezvous + "/failure.go", `if f.Victim && !next.Victim {`, `if false {`, rendezvous, "TestOneCauseInAnyOrder"},
	{"a victim is blamed before the cause can be told", plan + "/running.go", `wait = max(wait, p.t.Cause)`, `wait = max(wait, 0)`, rendezvous, "TestPlan"},
	{"a kill is taken for a victim", "internal/diagnosis/diagnosis.go", `case slices.Contains(kernel, e.Signal):`, `case false && slices.Contains(kernel, e.Signal):`, "internal/diagnosis", "TestExplain"},
	{"a slow evaluation is a hang", "internal/hang/silence.go", `now.CPU-before.CPU >= max(`, `now.CPU < max(`, "internal/hang", "TestSignsOfLife"},
	{"a rank that waits is named instead of the one that is waited for", "internal/diagnosis/hang.go", `case call != "":
			waiting++`, `case call == "":
			waiting++`, "internal/diagnosis", "TestFindBehind"},
	{"who is ended for its stack is the cause", plan + "/running.go", `wait = max(wait, 2*p.t.Cause)`, `wait = max(wait, 0)`, rendezvous, "TestPlan"},
	{"warnings after an exception hide it", "internal/diagnosis/diagnosis.go", `return row != "" && row[0] != '[' &&`, `return row != "" &&`, "internal/diagnosis", "TestExplain"},
	{"jobs mix in one log", workerPkg + "/output/runmark.go", `if run == "" || err == nil && string(before) == run+"\n" {`, `if run == "" || err == nil && len(before) > 0 {`, workerPkg, "TestLogsOfAnotherRunAreMovedAside"},
	{"C3: register again beside the next generation", registry, `store.Unchanged(r.Job.Node(n.Node), n.Rev), store.Unchanged(r.Job.World(), worldRev)`, `store.Unchanged(r.Job.Node(n.Node), n.Rev)`, rendezvous, "TestGuards/memory"},
	{"join over a node that is there", registry, `store.Unchanged(r.Job.Job(), j.JobRev), store.Absent(r.Job.Node(n.Node))`, `store.Unchanged(r.Job.Job(), j.JobRev)`, rendezvous, "TestGuards/memory"},
	{"leave takes the next life along", registry, `If: []store.Guard{store.Unchanged(r.Job.Node(n.Node), n.Rev)},`, ``, rendezvous, "TestGuards/memory"},
	{"take over from whoever has the name", registry, `If:   []store.Guard{store.Unchanged(r.Job.Node(dead.Node), dead.Rev)},`, ``, rendezvous, "TestGuards/memory"},
	{"C19: a commit over a newer one", checkpoint + "/record.go", `schema.FenceIs(r.Job, r.uid(), h.Generation), store.Unchanged(r.Job.Head(), seen.Rev),
		store`, `schema.FenceIs(r.Job, r.uid(), h.Generation),
		store`, checkpoint, "TestCommit"},
	{"a holder that is gone counts", checkpoint + "/record.go", `if n.Node != r.Self {
			guards`, `if false {
			guards`, checkpoint, "TestCommit"},
	{"C13: a rollback under its old number", checkpoint + "/record.go", `	to.Number = seen.Number + 1
	return`, `	return`, checkpoint, "TestRollbackAndDrop"},
	{"an exit of the same revision passes", storePkg + "/store.go", `Rev: rev + 1}`, `Rev: rev + 2}`, rendezvous, "TestGuards/memory"},
	{"an unknown result is taken for a refusal", storePkg + "/request.go", `bytes.Equal(res.Else.Value, proof.Value)`, `bytes.Equal(res.Else.Value, nil)`, rendezvous, "TestUnknownResults"},
	{"an unknown result is taken for done", storePkg + "/request.go", `		case Refused(err):
			return 0, err`, `		case err != nil:
			return 0, nil`, rendezvous, "TestUnknownResults"},
	{"members beyond the first part are lost", rendezvous + "/members.go", `parseMembers(all, e)`, `parseMembers(all[:0], e)`, rendezvous, "TestWorldsOfManyNodes"},
	{"members that cannot be read are left out", rendezvous + "/members.go", `len(all) != w.Count+w.Leaving`, `false`, rendezvous, "TestTornMembers"},
	{"a world that forms has no endpoints", follow + "/follow.go", ` && w.Proposal == of && w.Master != nil {`, ` && w.Proposal == of {`, rendezvous, "TestEndpoints"},
	{"changes of another world are used", follow + "/cache.go", `m.proposal != "" && m.proposal == w.Base`, `m.proposal != "" && w.Base != ""`, rendezvous, "TestChangesOfAnotherWorldAreNotUsed"},
	{"a world with leavers is told by its changes", rendezvous + "/members.go", ` || len(w.Leavers) > 0 {`, ` {`, rendezvous, "TestWorldsByTheirChanges"},
	{"leavers of a large world are lost", rendezvous + "/members.go", `all[:w.Count:w.Count], all[w.Count:]`, `all[:w.Count:w.Count], nil`, rendezvous, "TestWorldsOfManyNodes"},
	{"all members are in every phase", rendezvous + "/world.go", `if w.Chunks > 0 {
		w.Members, w.Leavers = nil, nil`, `if false {
		w.Members = nil`, rendezvous, "TestWorldsOfManyNodes"},
	{"a proposal forgets who left last", txn + "/propose.go", `store.DeleteRange(r.Job.AllExits(), schema.Before(r.Job.AllExits(), w.Generation-1)),`, `store.DeleteRange(r.Job.AllExits(), schema.Before(r.Job.AllExits(), w.Generation)),`, rendezvous, "TestProposeCleansUp"},

	// Who is alive.
	{"who answers is gone", verdict + "/verdict.go", `case answered && a.Kind == membership.Same && present:`, `case false:`, verdict, "TestJudge"},
	{"one witness of silence is enough", verdict + "/verdict.go", `len(c.silentBy) >= 2`, `len(c.silentBy) >= 1`, verdict, "TestJudge"},
	{"the isolated one drops everybody", verdict + "/verdict.go", `case len(c.silentBy) >= 2 && !ev.Isolated:`, `case len(c.silentBy) >= 2:`, verdict, "TestJudge"},
	{"a silent node is not asked in the store", verdict + "/verdict.go", `known && c.own != 0 && x.Rev == c.own &&`, `(known || true) && c.own != 0 ||`, verdict, "TestJudge"},
	{"the store is asked although a third node is registered", verdict + "/verdict.go", `len(f.nodes) == 2 && !f.ev.Isolated`, `!f.ev.Isolated`, verdict, "TestJudge"},
	{"an answer in the store does not count", verdict + "/verdict.go", `x.Sign == membership.Silent && !x.Answered`, `x.Sign == membership.Silent`, verdict, "TestJudge"},
	{"an answer that races with an eviction is not compared", "pkg/rendezvous/txn/lost.go", `if x.Record != 0 {`, `if false {`, rendezvous, "TestGuards"},
	{"what a proposal has no room to delete stays", detection + "/watch.go", `if len(back) > 0 {`, `if false {`, runtime, "TestARowOfNeighboursIsOneLoss"},
	{"a first answer has a second where others are prompt", membership + "/patience.go", `return min(slowest, b.First)`, `return b.First`, membership, "TestWatcherExpectsAFirstAnswerAsOthersGiveIt"},
	{"a first answer is expected like a later one", membership + "/patience.go", `max(slowest, c.limit(b), c.took+c.took/2)`, `max(slowest, c.limit(b))`, membership, "TestWatcherExpectsAFirstAnswerAsOthersGiveIt"},
	{"one prompt answer makes all others late", membership + "/patience.go", `c.heard && now.Sub(c.met) >= b.Patience`, `c.heard`, membership, "TestWatcherExpectsNothingWhereAllBegin"},
	{"a deaf node of two is lost though it renews its lease", runtime + "/await.go", `if err != nil || i < awaitLease {`, `if err != nil || i < awaitReads {`, runtime, "TestADeafWatchInACutOfTwoIsNoLoss"},
	{"a late read proves silence", runtime + "/await.go", `context.WithTimeout(ctx, awaitEvery)`, `context.WithTimeout(ctx, time.Minute)`, runtime, "TestAReadThatComesLateProvesNoSilence"},
	{"a suspicion is not answered", detection + "/answer.go", `f.findsSilent(s) && !s.Answered {`, `f.findsSilent(s) && s.Answered {`, runtime, "TestOneOfTwoThatStandsStillInACutIsLost"},
	{"an expired lease is a death", verdict + "/verdict.go", `onTime := absent && !ev.OnTime.IsZero() && s.Since.Sub(ev.OnTime) >= l.TTL`, `onTime := absent`, verdict, "TestJudge"},
	{"silence counts while the store was away", verdict + "/verdict.go", `if !quiet || void {`, `if !quiet {`, verdict, "TestJudge"},
	{"C7: another life keeps the old one alive", verdict + "/verdict.go", `if present && !s.Registered {`, `if false {`, verdict, "TestJudge"},
	{"who left comes back with a late registration", verdict + "/verdict.go", `x != nil && x.Incarnation == m.Incarnation {`, `x != nil && x.Incarnation == m.Incarnation && !present {`, verdict, "TestJudge"},
	{"a suspicion of a dead watcher counts", verdict + "/verdict.go", `; !ok || w.Incarnation != x.Watcher {`, `; !ok && w.Incarnation != x.Watcher {`, verdict, "TestJudge"},
	{"an old answer counts", verdict + "/verdict.go", `return ok && f.now.Sub(a.At) < f.l.Fresh`, `return ok && !a.At.After(f.now)`, verdict, "TestJudge"},
	{"two of a hundred in doubt are a crowd", verdict + "/verdict.go", `(3*n+9)/10`, `2`, verdict, "TestCrowd"},
	{"a suspicion of a moment stays", detection + "/watch.go", ` || d.newestRecord > 0`, ``, runtime, "TestAShortSuspicionDoesNotStay"},
	{"one that is cut off is a crowd", verdict + "/verdict.go", ` && !oneNode(doubts)`, ``, runtime, "TestWhoIsCutFromItsPeersIsReplacedInSeconds"},
	{"one who has a part in some doubts explains all", verdict + "/verdict.go", `return d.By != x && d.About != x`, `return d.By != x && d.About != x && d.By == d.About`, verdict, "TestCrowd"},
	{"a watcher that accuses later is not asked", detection + "/judge.go", `if len(late) > 0 && out`, `if len(late) > 9 && out`, detection, "TestAWatcherThatAccusesLaterIsAsked"},
	{"a slow answer is forgotten with the next one", membership + "/patience.go", `g.longest = max(g.longest, gap)`, `g.longest = gap`, membership, "TestLimit"},
	{"a slow first dial makes patient for minutes", membership + "/watched.go", `		if n.heard {
`, `		if true {
`, membership, "TestObserve"},
	{"silence is a sign while this process did not run", membership + "/watcher.go", `; late > grace {`, `; late > time.Hour+grace {`, membership, "TestWatcherThatComesLateAccusesNobody"},
	{"a probe waits as long as a node stood still", "internal/peer/pace.go", `w.best = min(w.best, trip)`, `w.best = max(w.best, trip)`, "internal/peer", "TestPace"},
	{"a crowd of those who were in doubt before counts", detection + "/judge.go", `!d.doubts[x]`, `len(d.doubts) == 0`, detection, "TestANewDoubtMakesACrowd"},
	{"those that a lost node watched count as alive", verdict + "/watched.go", `if m.Unasked = true; !fresh {`, `if !fresh {`, verdict, "TestThoseThatALostNodeWatchedAreAsked"},
	{"the first of a row is replaced alone", plan + "/change.go", `silent := goesOn && seen.Unasked`, `silent := false && seen.Unasked`, runtime, "TestARowOfNeighboursIsOneLoss"},

	// The plan.
	{"C11: the barrier does not wait for leavers", plan + "/barrier.go", `for _, l := range s.World.Leavers {
		r, ok`, `for _, l := range s.World.Leavers[:0] {
		r, ok`, rendezvous, "TestPlan"},
	{"C11: leavers of leavers are forgotten", plan + "/propose.go", `slices.Concat(old, leavers)`, `slices.Concat(old, leavers[:0])`, rendezvous, "TestPlan"},
	{"the barrier takes the word of another life", plan + "/barrier.go", `if r, ok := s.Ready[m.Node]; !ok || r.Incarnation != m.Incarnation {`, `if _, ok := s.Ready[m.Node]; !ok {`, rendezvous, "TestPlan"},
	{"C14: done by the word of another life", plan + "/ends.go", `if x, ok := p.s.Exits[m.Node]; !ok || x.Incarnation != m.Incarnation || len(x.Codes) != workers || !x.Zero() {`, `if x, ok := p.s.Exits[m.Node]; !ok || len(x.Codes) != workers || !x.Zero() {`, rendezvous, "TestPlan"},
	{"who was stopped with 0 is through", rendezvous + "/reports.go", `return !e.Planned && len(e.Codes) > 0`, `return len(e.Codes) > 0`, rendezvous, "TestPlan"},
	{"C18: who saved and left ends the save", plan + "/waiting.go", `seen.State != verdict.Gone || seen.Reason == "left" {`, `seen.State != verdict.Gone {`, rendezvous, "TestPlan"},
	{"C7: a wish is a cause for ever", plan + "/running.go", `return s.Least() > s.World.Count ||`, `return s.Wish.NP != s.World.Count ||`, rendezvous, "TestPlan"},
	{"a job that was to grow when its nodes are here never does", rendezvous + "/snapshot.go", `if s.Growing() && present < s.Wish.NP {`, `if s.Growing() {`, rendezvous, "TestPlan"},
	{"a job that has grown falls back to its old size", rendezvous + "/snapshot.go", ` && w.NP < s.Wish.NP`, ``, rendezvous, "TestPlan"},
	{"gone as a cause, alive in the plan", plan + "/assign.go", `(seen.State == verdict.Gone ||`, `(false ||`, rendezvous, "TestWorldsAreSound"},
	{"a failure goes before a stop", plan + "/plan.go", `case s.Wish.Stop == s.Job.Attempt:`, `case s.Wish.Stop == s.Job.Attempt && s.Failure == nil:`, rendezvous, "TestPlan"},
	{"finishing restarts what a loss took", plan + "/running.go", `		case seen == nil || seen.State == verdict.Gone || seen.State == verdict.Absent && seen.WorkersEnded:
`, `		case seen == nil || seen.State == verdict.Gone || seen.State == verdict.Absent && seen.WorkersEnded:
			return p.change(rendezvous.CauseNodeLost, LossText(p.lost()))
`, rendezvous, "TestPlan"},
	{"finishing restarts before the failure is on record", plan + "/running.go", `through = through && (p.s.Failure != nil ||`, `through = through && (true ||`, rendezvous, "TestPlan"},
	{"rank 0 goes to whoever", plan + "/assign.go", `	first(ranks, rendezvous.NewRefSet(old), others, holds)`, ``, rendezvous, "TestRankZeroGoesToAHolder"},
	{"ranks by name, whoever had them", plan + "/assign.go", `		if r := pool[o.Node]; r != nil {
			take(r, rank)
		}
	}`, `		for i := range from {
			if r := pool[from[i].Node]; r != nil && pool[o.Node] != nil {
				take(r, rank)
				break
			}
		}
	}`, rendezvous, "TestLeastMovement"},
	{"a generation below what a node has seen", plan + "/propose.go", `w.Generation = max(w.Generation, x.LastGeneration)`, `_ = x`, rendezvous, "TestPlan"},
	{"the last call is never over", plan + "/plan.go", `return p.after(p.m.LastCallSince, time.Duration(p.s.Job.Rules.LastCall), next)`, `return Nothing{p.now.Add(time.Second)}`, rendezvous, "TestPlan"},
	{"workers wait for the last call of a scale", plan + "/running.go", `return p.atTarget(func() Step { return p.planned(p.growthCause()) })`, `return p.planned(p.growthCause())`, rendezvous, "TestPlan"},
	{"a leaver that is gone is a sign", "pkg/rendezvous/status/timing.go", `v.Members[:min(len(v.Members), len(s.World.Members))] {`, `v.Members {`, "pkg/rendezvous/status", "TestFirstSign"},
	{"the last call begins anew with everybody", plan + "/observed.go", `case m.LastCallSince.IsZero():`, `default:`, rendezvous, "TestMarks"},
	{"victims spend the budget", plan + "/ledger/ledger.go", `s.Collateral = e.Lost`, `s.Collateral = false`, rendezvous, "TestLedger"},
	{"a loss in the back-off gives nothing back", plan + "/change.go", `b.Pardoned = len(p.lossesThatExplain()) > 0 && ledger.Pardon(&b.Ledger, p.w)`, ``, rendezvous, "TestLedger"},
	{"who leaves in a hurry harms nobody", plan + "/losses.go", `		default:
			broke = append(broke, m)
		}
	}
	return broke`, `		}
	}
	return broke`, rendezvous, "TestLedger"},
	{"a Hold frees who is in quarantine", plan + "/waiting.go", `, Quarantine: p.w.Quarantine}`, `}`, rendezvous, "TestPlan"},
	{"who left is missed", plan + "/observed.go", `return l.Node == x.Node && l.Incarnation == x.Incarnation })`, `return false })`, rendezvous, "TestMissingNodesAreTold"},
	{"what was told is not seen", follow + "/entries.go", `!strings.HasPrefix(key, f.Job.Event(rendezvous.MissedEvent))`, `rendezvous.MissedEvent != ""`, rendezvous, "TestWhoWasToldIsSeen"},
	{"a spare is told lost by each keeper", txn + "/lost.go", `store.Absent(key), `, ``, rendezvous, "TestGuards/memory"},
	{"a loss is told and not counted", plan + "/propose.go", `	w.Ledger = ledger.CountLost(w.Ledger, p.w, step.Lost, p.now)`, ``, rendezvous, "TestLossesAreCountedWhereTheyAreTold"},
	{"a holder throws a survivor out", plan + "/assign.go", `if !old.Has(*ranks[rank]) {`, `if false {`, rendezvous, "TestPlan"},
	{"101 is a failure", plan + "/ledger/ledger.go", `if s.Collateral || s.Newcomer || f.AsksForRestart() {`, `if s.Collateral || s.Newcomer {`, rendezvous, "TestLedger"},
	{"the budget is never full again", plan + "/ledger/ledger.go", `l.Used = 0
	}`, `}`, rendezvous, "TestLedger"},
	{"no end without progress", plan + "/ledger/ledger.go", `if l.NoProgress >= maxIdle {`, `if false {`, rendezvous, "TestLedger"},
	{"the back-off is always the same", plan + "/ledger/ledger.go", `time.Second<<min(n-1, 10)`, `time.Second`, rendezvous, "TestBackoff"},
	{"one restart more than was said", plan + "/ledger/ledger.go", `if l.Used >= rules.MaxRestarts {`, `if l.Used > rules.MaxRestarts {`, rendezvous, "TestBackoff"},

	// The agent.
	{"a start on an old read", workers + "/start.go", `if f.Now.Sub(f.AsOf) > fresh {`, `if false {`, machine, "TestStories"},
	{"ready beside older workers", workers + "/start.go", `w.ready >= world.Generation || !w.Quiet() ||`, `w.ready >= world.Generation ||`, machine, "TestStories"},
	{"who was told lost registers again", machine + "/registration.go", ` || slices.Contains(w.ReportedLost, m.self.node.Incarnation) {`, ` || slices.Contains(w.ReportedLost, "") {`, machine, "TestStories"},
	{"who left is suspected", detection + "/watch.go", `|| removed || len(news)`, `|| removed && false || len(news)`, machine, "TestStories"},
	{"buffered events after a gap are believed", machine + "/observe.go", `case o.stale && !e.Asked, m.self.job == nil:`, `case m.self.job == nil:`, machine, "TestStories"},
	{"a lost lease stops the workers", machine + "/apply.go", `	case errors.Is(e.Err, store.ErrLeaseLost):
		m.peers.LeaseUncertain()`, `	case errors.Is(e.Err, store.ErrLeaseLost):
		m.self.joined = false`, machine, "TestStories"},
	{"the store is away: enough to be dropped", machine + "/apply.go", `	default:
		m.peers.LeaseUncertain()
		m.storeSilent()`, `	default:
		m.self.joined = false`, machine, "TestStories"},
	{"silence counts as soon as the store is back", machine + "/observe.go", `		m.peers.StoreWasAway(m.now)
	}
	o.away`, `	}
	o.away`, machine, "TestStories"},
	{"C12: finishing before everybody has started", workers + "/start.go", `world.Generation <= w.floor || world.Phase != rendezvous.Running && world.Phase != rendezvous.Finishing {`, `world.Generation <= w.floor || world.Phase != rendezvous.Running {`, machine, "TestStories"},
	{"a member just goes", machine + "/leave.go", `case rendezvous.Forming, rendezvous.Running, rendezvous.Finishing:`, `case rendezvous.Forming:`, machine, "TestStories"},
	{"a leaver goes before the barrier", machine + "/registration.go", `case m.workers.Prepared(w.Generation):`, `default:`, machine, "TestStories"},
	{"who is told of a newer generation, and cannot ask, goes on", workers + "/drive.go", `f.Overtaken > g.World.Generation`, `false`, machine, "TestStories"},
	{"the job is done before its last save", workers + "/exits.go", `if all && f.Rank == 0 && !g.closed {`, `if false {`, machine, "TestStories"},
	{"a suspicion of whom it watches no more stays", detection + "/watch.go", `!slices.ContainsFunc(d.watched, s.About.Same)`, `f.World.Rank(s.About) < 0`, machine, "TestStories"},
	{"a save that can never be committed is waited for", workers + "/drive.go", `g.lastSave && (g.futile(f) || `, `g.lastSave && (`, machine, "TestStories"},
	{"an earlier life's leave ends the next", machine + "/apply.go", `return m.self.joined && m.self.node.Incarnation == inc`, `return m.self.joined`, machine, "TestAnswersOfAnEarlierLifeAreNotHeard"},
	{"a machine that moved and did not miss the store keeps its old address", machine + "/registration.go", `(m.seen.addressUnverified || m.peerFacts().Unreached())`, `m.seen.addressUnverified`, runtime, "TestANodeThatMovedJoinsAtItsNewAddress"},
	{"a machine that moved keeps its old address", machine + "/apply.go", `m.self.joined && e.Address != m.self.node.Address`, `false`, runtime, "TestANodeThatMovedJoinsAtItsNewAddress"},
	{"a stale record of saving is waited for", machine + "/plan.go", `m.now.Sub(m.keeper.activity[d.Node].at) < still`, `true`, runtime, "TestAStaleRecordOfSavingHoldsNobodyUp"},
	{"a planned stop does not let the workers save", workers + "/drive.go", `return order{action.HaltAsked, w.Hold.Reason`, `return order{action.HaltEnded, ""`, machine, "TestStories"},

	// The store, the disk, the processes.
	{"what came since the list is missed", follow + "/watch.go", `f.Store.Watch(ctx, f.ranges[0].From, f.ranges[0].End, f.rev+1)`, `f.Store.Watch(ctx, f.ranges[0].From, f.ranges[0].End, f.rev+2)`, rendezvous, "TestFollowMissesNothing"},
	{"a deaf watch is believed for ever", follow + "/watch.go", `context.WithTimeout(ctx, 10*time.Second+store.Jitter(20*time.Second))`, `context.WithCancel(ctx)`, rendezvous, "TestFollowMissesNothing"},
	{"an answer that did not come loses the lease", etcd + "/store.go", `if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("renew lease: %w", store.ErrLeaseLost)`, `if err != nil {
		return fmt.Errorf("renew lease: %w", store.ErrLeaseLost)`, etcd, "TestStore"},
	{"a file that is open for writing is complete", capture + "/openfiles/openfiles.go", `if want[id] && writable(pid, d.Name()) {`, `if want[id] && false {`,
		capture, "TestOpaqueFileIsCompleteWhenClosed"},
	{"a file that is mapped for writing is complete", capture + "/openfiles/openfiles.go", `		if id, ok := inodes[ino]; ok {`, `		if id, ok := inodes[ino]; ok && false {`,
		capture, "TestMappedFileIsUnderWay"},
	{"files of two saves are taken together", capture + "/judge/rounds.go", `case len(required) == 1, m.exactly(required) > 0,`, `case len(required) > 0, m.exactly(required) > 0,`,
		capture, "TestSavesBetweenTwoLooks"},
	{"the first save is of two saves", capture + "/judge/belong.go", `u.Path != "" && !finished(wrote) {`, `u.Path != "" && false {`,
		capture, "TestPausesThatMixedSaves"},
	{"a directory with a digit in its name is a save as a whole", capture + "/look.go", `if _, counted := e.order(); e.dir && !counted {`, `if e.dir && !e.numbered() {`, runtime, "TestSavesOutliveFaults"},
	{"the first save of the next generation is of two saves", capture + "/judge/judge.go", `		m.passes[k]++
`, `		m.passes[k] = 0
`, capture, "TestFirstSaveOfTheNextGeneration"},
	{"the next generation takes a file that is written twice when it was written once", capture + "/judge/judge.go", `		m.passes[k]++
`, `		m.passes[k] = 1
`, capture + "/judge", "TestHowOftenAFileIsWrittenIsRemembered"},
	{"a save with the time of the last one is none", capture + "/evidence.go", `e.same(was) && e.top.Ctime != was.top.Ctime`, `e.same(was) && false`, capture, "TestTimesThatAreSetBack"},
	{"a pause in the first save ends it", capture + "/judge/belong.go", `newest.Sub(l.Began)/quietShare`, `newest.Sub(l.Began)*0`, capture, "TestFirstSaveWithAPause"},
	{"what was still to come of the first save is taken with the next", capture + "/judge/belong.go", `case !m.unsure || !m.newcomer(u)`, `case true || !m.newcomer(u)`,
		capture, "TestPausesThatMixedSaves"},
	{"two names that are one file are put back", checkpoint + "/chunkstore/restore/onename.go", `if folds, err := foldsCase(to); folds`, `if folds, err := foldsCase(to); folds && false`,
		chunkstore, "TestNamesThatDifferInCase"},
	{"what a save replaced stays until the next came in whole", replicator + "/replicator.go", "r.Store.Incoming():\n\t\t\twait(0)", "r.Store.Incoming():\n\t\t\tsoon()", pipeline, "TestDiskUseIsBounded"},
	{"what a commit replaced stays while the next save is taken", pipeline + "/carry.go", "_ = l.replicator.Tidy(ctx)\n}", "}", pipeline, "TestDiskUseIsBounded"},
	{"a save that was given up keeps its room at the other node", chunkstore + "/draft.go", `return p.Before(at) }`, `return false }`, chunkstore, "TestLaterDraftReplacesTheOneBefore"},
	{"a save that was given up stays on the disk", chunkstore + "/put.go", `errors.Join(err, s.sweep())`, `err`, chunkstore, "TestTornIsNeverTaken"},
	{"a failing disk is told with each save", pipeline + "/overtaken.go", `capture.NoSpace, capture.Disk,`, `capture.NoSpace,`, pipeline, "TestDiskThatRefuses"},
	{"a directory that may not be opened counts as a failed sync", checkpoint + "/dirfs/disk.go", `ErrNoSpace, fs.ErrPermission,`, `ErrNoSpace,`, checkpoint + "/dirfs", "TestWhatCountsAsAFailureOfTheDisk"},
	{"a full disk is told with each save", pipeline + "/overtaken.go", `now.Sub(at) < overtakenAgain {`, `now.Sub(at) < 0 {`, pipeline, "TestNoSpaceIsSaidOnceAndTrainingGoesOn"},
	{"a file that no save had is taken with the next one", capture + "/judge/newcomer.go", `!m.unsure && !m.placed(u, required) {`, `!m.unsure && false {`,
		capture + "/judge", "TestSavesThatFail"},
	{"saves that failed teach how often a file is written", capture + "/judge/rounds.go", `m.divisor(required) >= again && ordered(required):`, `m.divisor(required) >= again:`,
		capture + "/judge", "TestSavesThatFail"},
	{"a file that is still to come is of the last save", capture + "/judge/rounds.go", `if units[i].Passes > units[i-1].Passes {`, `if false {`,
		capture + "/judge", "TestSavesThatFail"},
	{"three saves that failed set a file apart", capture + "/judge/judge.go", `most > apartAfter && steps`, `most >= apartAfter && steps`,
		capture + "/judge", "TestSavesThatFail"},
	{"the first of numbered parts is a save", capture + "/numbers.go", `	c.memory.Uncount(family, names)
`, ``, capture, "TestPausesThatMixedSaves"},
	{"a file that comes after the mark is in the save", capture + "/picture.go", `e.numbered() || e.newest() > told:`, `e.numbered():`, capture, "TestFileBesideOneWithAMark"},
	{"a save is taken without what the last one wrote", capture + "/judge/belong.go",
		`if !slices.ContainsFunc(wrote, func(u Unit) bool { return u.Key == key }) {`, `if !slices.ContainsFunc(wrote, func(u Unit) bool { return u.Key == key }) && false {`, capture, "TestSeveralFiles"},
	{"a directory is complete while nothing says so", capture + "/judge/judge.go", `if u.Dir && u.Counted && !u.Proven && `, `if u.Dir && u.Counted && !u.Proven && false && `,
		capture, "TestDirectoryOfAStep"},
	{"a save that waits is not told", capture + "/picture.go", `	c.doubt.told = now
	return []Refusal{`, `	c.doubt.told = now
	return nil
	return []Refusal{`, capture, "TestUnsettledSaveIsReported"},
	{"the agent's own state is a save", capture + "/look.go", `		case l.exclude[name]:
`, `		case false:
`, capture, "TestExcludedDirectories"},
	{"what a dead generation left stays", capture + "/aside.go", `(was.Prints[name] != e.print() || later(e))`, `later(e)`, capture, "TestSetAside"},
	{"one file that killed workers wrote is a save beside files of the one before", capture + "/judge/belong.go", `len(wrote) == 1 && stays == "":`, `len(wrote) == 1:`,
		capture + "/judge", "TestSavesThatFail"},
	{"what was saved later stays when the job goes back", capture + "/aside.go", `(was.Prints[name] != e.print() || later(e))`, `(was.Prints[name] != e.print() || later(e) && false)`, capture, "TestSetAside"},
	{"what was saved later stays when retention dropped its checkpoint", capture + "/aside.go", `counts && same && n > last ||`, `counts && same && n > last && false ||`, capture, "TestSetAside"},
	{"the last checkpoint with two copies is dropped", checkpoint + "/retention.go", `i >= r.Keep && i != safe && `, `i >= r.Keep && i != safe+1000 && `,
		checkpoint, "TestSurplusSparesTheLastCopies"},
	{"a read of the own registration is one of all", runtime + "/run.go", `l.nodes = append(others, s.Nodes...)`, `l.nodes = append(others[:0], s.Nodes...)`,
		runtime, "TestAgentThatStoodStillKeepsTheOthersInView"},
	{"a node that is not registered gets no copy", pipeline + "/carry.go", `if head.Copies < l.replicator.Replicas {`, `if head.Copies < l.replicator.Replicas && false {`,
		pipeline, "TestCopyForANodeThatIsNotRegistered"},
	{"the directory is not synced", checkpoint + "/dirfs/disk.go", `return d.SyncDir(dir)
}`, `return nil
}`, pipeline, "TestEveryFault"},
	{"chunks are not synced", chunkstore + "/chunks.go", `err := errors.Join(f.Sync(), f.Close())`, `err := f.Close()`, pipeline, "TestEveryFault"},
	{"a chunk on its way to another node is written over", chunkstore + "/lent/lent.go", `if c.returned && c.readers == 0 {`, `if c.returned {`, chunkstore + "/lent", "TestLent"},
	{"what a peer sends is believed", chunkstore + "/receive.go", `if manifest.Hash(sum.Sum(nil)) != h {`, `if false {`, chunkstore, "TestReceive"},
	{"a failed sync is tried again", checkpoint + "/dirfs/disk.go", `const maxFailed = 2`, `const maxFailed = 1 << 30`, chunkstore, "TestSyncFailureIsFinal"},
	{"a generation that was fenced meanwhile may still store", chunkstore + "/store.go", `	if g < s.generation {
		return fmt.Errorf("generation %d, %d was seen: %w", g, s.generation, ErrFenced)
	}
	if !s.whole(e.manifest) {`, `	if !s.whole(e.manifest) {`, chunkstore, "TestFencedWhilePutting"},
	{"a clock decides between a side that changed and one that did not", "internal/kube/decide.go", `case edited && wished && s.Synced != 0:`, `case (edited || wished) && s.Synced != 0:`, "internal/kube", "TestDecideWithClocksThatDiffer"},
	{"an edit of replicas in the second of the wish is lost", "internal/kube/decide.go", `s.NPAt.Truncate(time.Second)`, `s.NPAt`, "internal/kube", "TestDecide"},
	{"the end of a world is not announced to its workers", workerPkg + "/guardian.go", `		_ = os.WriteFile(g.spec.Drain+overSuffix, nil, 0o600)
`, ``, workerPkg, "TestTheEndIsAnnounced"},
	{"grandchildren outlive the guardian", workerPkg + "/guard.go", `if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {`, `if err := error(nil); err != nil {`, workerPkg, "TestKilledAgentTakesEverythingAlong"},
	{"a checkpoint that generations die of is trusted", plan + "/trust/trust.go", `case e.again():`, `case false:`, plan + "/trust", "TestSuspicion"},
	{"a generation that committed died where it began", plan + "/trust/trust.go", `e.resume != nil && e.head.Number > e.resume.Number`, `false`, plan + "/trust", "TestSuspicion"},
	{"what was saved after the loss was lost is used", plan + "/trust/trust.go", `return h.Step == nil || *h.Step < wrong`, `return true`, plan, "TestPoisonThatWasSavedIsSkipped"},
	{"a bug goes back for ever", plan + "/trust/trust.go", ` || !f.NaN && rolled >= MostRollbacks`, ``, plan, "TestABugIsNotTakenForPoisonForEver"},
	{"the order of Go is not that of Python", "cmd/train/order.go", `mix(right^o.keys[i])`, `mix(right+o.keys[i])`, "cmd/train", "TestOrderIsTheHelpers"},
	{"a restart in the middle of a warm-up begins it again", scaling + "/warmup.go", `before.LRScale == p.LRScale && `, `false && `, scaling, "TestWarmup"},
	{"a cap is not looked at", scaling + "/scaling.go", `		err = b.capped(p, world)
`, ``, scaling, "TestCapsRefuse"},
	{"the rate is multiplied onto the last", scaling + "/scaling.go", `return ratio
	}`, `return 1
	}`, scaling, "TestFor"},
	{"a newcomer spends the budget of the others", plan + "/ledger/ledger.go", `s.Newcomer = !e.Lost && `, `s.Newcomer = false && `, rendezvous, "TestQuarantine"},
	{"a newcomer that fails is tried again at once", plan + "/change.go", `p = p.withLedger(b.Ledger)`, `_ = b`, rendezvous, "TestQuarantine"},
	{"a flapping node is never put into quarantine", plan + "/ledger/quarantine.go", `if n := r.Losses - freeLosses; n > 0 {`, `if n := r.Losses - freeLosses; n > 1000 {`, rendezvous, "TestQuarantine"},
	{"a quarantine does not grow", plan + "/ledger/quarantine.go", `firstQuarantine<<min(n-1, 10)`, `firstQuarantine<<0`, rendezvous, "TestQuarantine"},
	{"a quarantine never ends", plan + "/keptout.go", `case !now.Before(until):`, `case false:`, rendezvous, "TestQuarantineEnds"},
	{"a node whose workers failed is tried again by time", plan + "/keptout.go", `taken := d == needed && (`, `taken := (`, rendezvous, "TestQuarantineEnds"},
	{"admit lifts later quarantines too", plan + "/keptout.go", `a.Node == node && a.Generation >= g`, `a.Node == node`, rendezvous, "TestQuarantine"},
	{"losses without progress cost no time", plan + "/ledger/ledger.go", `s.Backoff = backoff(l.Churn - maxChurn)`, ``, rendezvous, "TestChurn"},
	{"the exit of rank 0 is reported before its last save", workers + "/exits.go", `if all && f.Rank == 0 && !g.closed {`, `if x.Zero() && f.Rank == 0 && !g.closed {`, machine, "TestStories"},
	{"an agent that is started again makes its node a newcomer", plan + "/ledger/quarantine.go", `if !before[m.Node] && len(ranks) < maxNewcomers {`, `if (!before[m.Node] || !rendezvous.NewRefSet(old.Members).Has(m)) && len(ranks) < maxNewcomers {`, rendezvous, "TestNewcomers"},
	{"a worker that waits for a processor is silent", "internal/hang/silence.go", `starved = max(starved, waited(before.Pulses[i], now.Pulses[i], since))`, `_ = waited`, "internal/hang", "TestSilence"},
	{"a worker that receives is silent", "internal/hang/silence.go", ` || float64(transferred(before, now)) >= enough`, ``, "internal/hang", "TestSignsOfLife"},
	{"a pre-hook without an end passes", "internal/hook/hook.go", `late <- true`, `late <- false`, "internal/hook", "TestLimit"},
	{"what a pre-hook started goes on", "internal/hook/hook.go", `if err == nil {
		kill()
	}`, ``, "internal/hook", "TestLeftovers"},
	{"the fault of another node fails the check of this one", "internal/check/network.go", `f.Failed = own == nil`, `f.Failed = true`, "internal/check", "TestOwnFaultsFail"},
	{"a transfer of a check has no limit", "internal/check/serve.go", ` || ms > maxTransfer.Milliseconds()`, ``, "internal/check", "TestLimits"},
	{"a worker is ended before all nodes have looked", "internal/hang/watch.go", `here.Go(func() { all[0] = w.inspect(ctx, w.room()) })`, `here.Go(func() { all[0] = w.inspect(ctx, w.room()); w.Workers.Stacks(ctx) })`, "internal/hang", "TestAllLookBeforeOneIsEnded"},
	{"bundles pile up", "internal/hang/bundle.go", `generations[:max(0, len(generations)-mostBundles)]`, `generations[:0]`, "internal/hang", "TestBundleIsBounded"},
	{"the last collective is any one", "internal/diagnosis/flight.go", `|| seq < last.Seq {`, `|| last.Seq > 0 {`, "internal/diagnosis", "TestParseFlight"},
}
