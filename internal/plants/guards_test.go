package plants_test

const statusPkg = "pkg/rendezvous/status"

// guards are bugs in what keeps strangers, damage and workers from doing harm. They are planted after all others.
var guards = []plant{
	// Records of the store.
	{"a registration without its incarnation is read", "pkg/membership/valid.go", `if r.Incarnation == "" {`, `if false {`, statusPkg, "TestRecordsThatPoseAsOthers"},
	{"a registration of another node is read", "pkg/membership/membership.go", `if n.Node != p[0] {`, `if false {`, statusPkg, "TestRecordsThatPoseAsOthers"},
	{"a world without its proposal is read", rendezvous + "/valid.go", `schema.ValidName(w.Proposal) || w.Generation == 0 && w.Proposal == ""`, `true`, statusPkg, "TestRecordsThatPoseAsOthers"},
	{"a wish for no nodes is read", rendezvous + "/valid.go", `s.Wish.Rev == 0 || s.Wish.NP > 0`, `true`, statusPkg, "TestRecordsThatPoseAsOthers"},
	{"the id of a job is a path", rendezvous + "/valid.go", `	p.Name("uid", string(j.UID))
`, ``, rendezvous, "TestIDsLeadNowhere"},
	{"what was set aside of a job stays there", "internal/node/disk/kept.go", `half || was == "" && (uid == job.UID`, `half || false && (uid == job.UID`, "internal/node/disk", "TestAdopt"},
	{"an id on the disk moves a store out", "internal/node/disk/kept.go", `err == nil && !schema.ValidName(uid)`, `false`, "internal/node/disk", "TestAnIDThatIsAPathMovesNothingOut"},
	{"an address that stands for all is announced", "internal/cli/target/interface.go", `err == nil && a.Unmap().IsUnspecified()`, `err == nil && a.Unmap().IsMulticast()`, "internal/cli/target", "TestOursIsNotEvery"},
	{"a job that cannot name a ConfigMap is kept equal", "internal/kube/sync.go", `!validObject.MatchString(name)`, `name == ""`, "internal/kube", "TestJobsThatCannotNameAConfigMap"},
	{"the fence of another job is read", rendezvous + "/snapshot.go", `if s.Job != nil && of != s.Job.UID {`, `if false {`, statusPkg, "TestRecordsThatPoseAsOthers"},
	{"a checkpoint under another number is read", rendezvous + "/snapshot.go", `if e.Key != job.Checkpoint(uint64(h.Number)) {`, `if false {`, statusPkg, "TestRecordsThatPoseAsOthers"},
	{"a waiting world needs no hold", rendezvous + "/valid.go", `w.Phase != Waiting || w.Hold != nil`, `true`, statusPkg, "TestRecordsThatPoseAsOthers"},
	{"a record of any size is read", "pkg/schema/record.go", `if len(e.Value) > maxRecord {`, `if false {`, statusPkg, "TestRecordsThatPoseAsOthers"},
	{"a registration that was written again is not taken up", machine + "/observe.go", `		m.self.node.Rev = n.Rev
	default:`, `	default:`, runtime, "TestGarbageForSeconds"},
	{"a registration on another lease is left there", machine + "/observe.go", `	default:
		m.self.unkeyed = m.now
	}`, `	}`, runtime, "TestRegistrationOnAnotherLease"},

	// Addresses.
	{"https without an authority is no open door", "internal/coordinator/exposure.go", `u.Scheme == "https" && t.CA != ""`, `u.Scheme == "https"`, "internal/coordinator", "TestRefusedSettings"},
	{"loopback needs no certificate", "internal/coordinator/exposure.go", `if c.Insecure || u.Scheme`, `if c.Insecure || u.Hostname() == "127.0.0.1" || u.Scheme`, "internal/coordinator", "TestRefusedSettings"},
	{"pages answer without a certificate", "internal/coordinator/http.go", `if anonymous && !brief {`, `if false && anonymous && !brief {`, "internal/coordinator", "TestHTTPWithTLS"},
	{"a password travels readable", etcd + "/config.go", `if _, plain := s.plain(i); plain && !strings.HasPrefix(e, "unix:") {`, `if _, plain := s.plain(i); false && plain {`, etcd, "TestTLS"},
	{"a certificate of another name is mended by a user", "internal/cli/problem/known.go", `{etcd.ErrCertName, func`, `{etcd.ErrNotEtcd, func`, "internal/cli/problem", "TestFixesOfTLS"},
	{"a peer need not know the secret", "internal/peer/identity.go", `|| !id.key.Equal(s.PeerCertificates[0].PublicKey)`, ``, "internal/peer", "TestWrongSecretIsAStrangerOnBothEnds"},
	{"strangers of one host have no limit", "internal/peer/gate.go", `if g.from[pending][c.remote] >= g.limits.pendingFrom {`, `if false {`, "internal/peer", "TestHonestGetThroughAFlood"},

	// Files, workers and terminals.
	{"a full disk is taken for damaged data", "internal/coordinator/member.go", `if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {`, `if errors.Is(err, unix.ENODEV) {`, "internal/coordinator", "TestFullDiskHasItsFix"},
	{"a manifest has any number of files", checkpoint + "/manifest/manifest.go", `if len(*f) == MaxFiles {`, `if false {`, checkpoint + "/manifest", "TestEmptyFilesAreCheap"},
	{"an agent waits for a pipe", "internal/regular/regular.go", `err == nil && !info.Mode().IsRegular()`, `false`, "internal/regular", "TestOpenNeverWaits"},
	{"a row of lost neighbours is more than a transaction takes", "internal/agent/detection/watch.go", `|| removed || len(news) == membership.MaxSuspicions {`, `|| removed {`, "internal/agent/detection", "TestSuspicionsOfOneMomentAreOneRequest"},
	{"a suspicion that was not written is not written again", "internal/agent/detection/detection.go", `delete(d.written, inc)`, `_ = inc`, "internal/agent/detection", "TestSuspicionsOfOneMomentAreOneRequest"},
	{"a worker waits for the disk", workerPkg + "/output/pump.go", `staged, err := splice(fd, int(p.stage.Fd()), nil)`, `if n, _, err = p.Log.take(fd, tailBytes); n >= 0 { return n, err }; staged := 0`, workerPkg + "/output", "TestWorkersDoNotWaitForTheDisk"},
	{"the pipe of a worker is small", workerPkg + "/output/pump.go", `pipe(patience)`, `pipe(Chunk)`, workerPkg + "/output", "TestWorkersDoNotWaitForTheDisk"},
	{"what a killed agent had taken out of a pipe is lost", workerPkg + "/guard.go", `drainPipe(s.Staged, s.Log)`, ``, workerPkg, "TestTheGuardianWritesTheStageFirst"},
	{"a log is written through a link", "internal/worker/output/logfile.go", `mode|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK`, `mode|os.O_CREATE|unix.O_NONBLOCK`, workerPkg, "TestLogsFollowNoLinks"},
	{"a message of another node has no end", "internal/logs/http.go", `if b.left <= 0 {`, `if b.left = len(p); false {`, "internal/logs", "TestMessageWithoutEnd"},
	{"control characters reach the terminal", "internal/phrase/plain.go", `return unicode.IsControl(r) ||`, `return`, "internal/phrase", "TestPlain"},
	{"an agent tells control characters", "internal/node/teller.go", `text := phrase.Plain(l.Text)`, `text, _ := l.Text, phrase.Plain`, "internal/node", "TestForeignWordsAreEscaped"},
	{"a bad line gets no why", "internal/cli/command/refused.go", `e.Status != problem.Usage.Status() ||`, `true ||`, "internal/cli", "TestBadCommandLines"},
}
