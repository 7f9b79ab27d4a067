------------------------------ MODULE Elastic ------------------------------
(***************************************************************************)
(* How nodes agree on a World: a linearizable store with leases (etcd), one *)
(* agent and one worker a node, checkpoints on the nodes' disks.            *)
(*                                                                         *)
(* A request is a record r.  OK(r) is what its transaction compares and     *)
(* Effect(r) what it writes, nothing else.  Issue(r) applies it at once, or *)
(* puts it into `net`, from where Deliver applies it at any later time,     *)
(* also after its sender crashed, froze, lost its lease or came back as     *)
(* somebody else: that is at once the stale view, the slow request and the  *)
(* unknown result.                                                         *)
(*                                                                         *)
(* request of the protocol     r.t       action                            *)
(*   Reopen                    reopen    Reopen                            *)
(*   Join                      join      Join, JoinAgain                   *)
(*   Leave                     leave     LeaveReq, Went                    *)
(*   Take over                 take      TakeOver                          *)
(*   Re-register               rereg     Lost                              *)
(*   Propose                   prop      Propose (causes: Cause, plan:     *)
(*                                       PlanMem, Leaving, Evict)          *)
(*   Rollback                  prop      Rollback                          *)
(*   Ready                     rdy       Ready                             *)
(*   Hold                      hold      Hold                              *)
(*   Run                       ph        TurnRunning                       *)
(*   Failure                   fail      ReportFail                        *)
(*   Exit                      exit      ReportExit, ReportPart, PExit     *)
(*   Finish, Done, Fail, Stop  ph        Finishing, Done, Fail, Stop       *)
(*   Commit                    com       Commit (after Replicate)          *)
(*   Scale; Stop asked         wish      Wish; StopAsk                     *)
(*   suspects/                 sus, clr  Suspect, Clear                    *)
(*   Answer                    ans       Answer                            *)
(*                                                                         *)
(* ModRevision(world) is Len(W); the fence is Last.g, since only Propose    *)
(* appends a World with a new generation; ModRevision(nodes/n) is key[n],   *)
(* the incarnation that is registered, 0 for none.                         *)
(* Every registered agent that has read the newest world may take every     *)
(* step of the keeper: safety does not depend on which node that is.        *)
(* Timers are oracles.  Every choice of the protocol is a switch, and its   *)
(* wrong position must fail; every fault has a budget (B...).               *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  (* bounds *)
  NN, MinNP, MaxNP, MaxGen, MaxStep, MaxInc,
  StartFormed,    \* TRUE: the first world runs already
  StartHead,      \* "none" | "lost", "away": the first world forms, from a checkpoint that all holders lost, or whose holder is off
  LiveMode,       \* TRUE: see Over, below
  (* how often each fault, and each thing that people and workers do, may happen *)
  BCrash, BRestart, BFreeze, BThaw, BCutE, BCutP, BCutL, BEtcd, BLapse, BLoss, BHang, BDelay, BGrace, BSlow,
  BFail, BFailPh, BColl, BExit, BPart, BWish, BStop, BLeave,
  (* Propose *)
  GuardHead,      \* TRUE: compares ModRevision(ckpt/head) [C1]
  GuardSelf,      \* TRUE: compares the proposer's own node key
  EvictGuard,     \* TRUE: eviction compares the incarnation that was seen [C5]
  DropGuard,      \* TRUE: compares that each dropped, unlisted member is (still) unregistered [C4]
  DropAs,         \* "compare" | "leaver": a node that is dropped beyond the limit of a transaction is carried as a leaver, without a compare
  ExitCmp,        \* TRUE: Propose and Stop compare that no exit record is newer than seen; all zero is Done [C15]
  Leave,          \* "none" | "last" | "carry": the nodes besides members that must stop before running [C11]
  IncKill,        \* TRUE: a key whose node answers with another incarnation counts as gone in the plan too [C7]
  SamePlan,       \* FALSE | TRUE: a plan equal to the forming world is proposed too [C7]
  Confirm,        \* TRUE: an absent key is only suspicion
  BarrierDrop,    \* TRUE: a member without key may be dropped from a forming world though peers reach it [C8]
  BarrierMiss,    \* a member that misses the barrier limit: "evict": loses its key | "late": becomes a leaver, a leaver loses its key
                  \* | "leaver": becomes or stays a leaver
  (* Commit and Rollback *)
  CommitFence,    \* "proposed" | "running" | "none": which generation is the newest [C2]
  Stamp,          \* "worker": a capture carries the writer's generation | "agent": the agent's present one [C6]
  ReplicaGuard,   \* TRUE: commit needs two holders
  CommitOrder,    \* "own": never older than the head that the same generation made [C19] | "none" | "step": larger than any before [C13]
  RollHead,       \* TRUE: Rollback moves the head in its Propose | FALSE: only the resume [C13]
  RollWhen,       \* "lost": every holder answered and none has it | "away": no node that answers has it | "never"
  (* registration *)
  LostLease,      \* "stop" | "rereg": the same incarnation re-registers [C3]
  ReregGuard,     \* TRUE: re-registration compares ModRevision(world) [C3]
  ReregLv,        \* TRUE: a leaver may re-register too [C3]
  TakeGuard,      \* TRUE: Take over compares the key that was seen
  OrphanWait,     \* TRUE: a new agent waits until old workers are gone [C10]
  NodeAtt,        \* TRUE: nodes/ names the attempt it joined; Plan takes only those of the job's
  (* views and the barrier *)
  Monotone,       \* TRUE: events older than the known revision are refused [C9]
  ReadyInc,       \* TRUE: ready/ and exit/ carry the incarnation [C14]
  StartFin,       \* TRUE: workers also start when the world already turned finishing [C12]
  (* ends *)
  DoneRule,       \* "all" | "live": whose exit records make Done [C14]
  DoneWait,       \* TRUE: Done also out of waiting [C15]
  FailCmp,        \* "world": Failure compares ModRevision(world), running or finishing | "fence": as Exit [C16]
  ExitRev,        \* TRUE: Exit compares its own revision
  (* planned changes *)
  HoldCmp,        \* TRUE: Hold compares the members it names as lost [C4]
  HoldFence,      \* FALSE | TRUE: Hold also fences the commits of g
  WaitCause,      \* TRUE: a waiting world is itself a cause | FALSE: only what was a cause anyway
  PExitAfter,     \* "commit": planned exit after the last save is committed | "stop": when the workers stopped
  LeftCause,      \* FALSE | TRUE: a member that left, or went after its record, is an unplanned cause [C18]
  (* stop and new attempts *)
  FinStop,        \* "hold": a stop or a leave holds a finishing world too | "wait"
  StopHold,       \* TRUE: nothing is proposed while a stop of this attempt is asked
  StopNone,       \* TRUE: Stop needs no world of this attempt
  StopNames,      \* TRUE: wish.stop names its attempt
  WishCond,       \* "attempt": wishes are refused when the world of the job's own attempt ended | "phase": when any ended
  WishKeep,       \* TRUE: Scale keeps a stop that is asked
  ReopenCmp,      \* "all": job, world, wish | "world"
  ReopenOnce,     \* TRUE: only the end that was there when this agent came
  EndedProp,      \* FALSE | TRUE: agents of the ended attempt may propose
  (* suspicion *)
  SusMode,        \* "oracle" | "rec": suspects/ records
  SusDial,        \* TRUE: the proposer dials once more [C17]
  SusInc,         \* TRUE: a record counts for its incarnation only [C17]
  SusLive,        \* "no" | "key": watcher registered as the incarnation that wrote it | "ask": and it answers now that it is still so [C17]
  SusWait,        \* "window": an open suspicion delays at most a window | "forever": until the verdict
  AnsWait,        \* TRUE: of two, the silent one has time to answer in the store | FALSE: one accuser is enough [C20]
  AnsCmp          \* TRUE: Propose and Hold compare that it has not answered [C20]

Nodes == 1..NN
None  == <<0,0>>                        \* no checkpoint; <<g,s>> is step s, written by a worker of generation g

VARIABLES
  (* the node *)
  up,         \* "run", "froz", "off": the agent
  inc, nxt,   \* its incarnation (0: outside), the next one
  know,       \* the newest world that it has read, as an index into W
  wk, winc,   \* generation of its running worker (0: none), the incarnation that started it
  orph,       \* generation of a worker that outlived its agent
  lst, ex,    \* the last generation started here, the last that ended here with 0
  sav, disk,  \* the newest capture, the checkpoints on the disk
  hung,       \* nodes whose worker cannot be killed
  ask, lvg,   \* generation whose worker was stopped on request; asked to leave
  came, na,   \* the end that was there when this agent came (as an index into W); the attempt that it joined
  psv,        \* the last planned save (of all nodes)
  (* the store *)
  key, ka,    \* nodes/: incarnation, attempt
  W,          \* world, all its versions
  rdy, failg, exits, pex, ev,   \* ready/, failure/, exit/ with 0, exit/ planned, versions of exit/
  left, sus,  \* left/, suspects/
  head, hold, hist,   \* ckpt/head, its holders, ckpt/n/
  job, mx,    \* the attempt; the wish
  avail,      \* the store answers
  (* the rest *)
  net,        \* requests under way
  cutE, cutP, cutL,   \* cut from the store, from all peers, single links
  b, bad      \* what is left of each budget; what must not have happened
nodeX == <<ask,lvg,came,na,psv>>
nodeV == <<up,inc,nxt,know,wk,winc,orph,lst,ex,sav,disk,nodeX>>
storeX == <<left,pex,ev,sus,job,ka,hold,hist>>
storeV == <<key,W,rdy,head,failg,exits,mx,storeX>>
vars == <<nodeV,storeV,hung,avail,net,cutE,cutP,cutL,b,bad>>
Ended == {"done","failed","stopped"}

Last == W[Len(W)]
HasW == Len(W) > 0
Range(s) == {s[i] : i \in 1..Len(s)}
Min2(x,y) == IF x < y THEN x ELSE y
ResOf(g) == LET k == CHOOSE k \in 1..Len(W) : W[k].g = g IN W[k].res
RunGen == LET R == {W[k].g : k \in {j \in 1..Len(W) : W[j].ph # "forming"}} IN
          IF R = {} THEN 0 ELSE CHOOSE x \in R : \A y \in R : y <= x

Head0    == IF StartHead = "none" THEN None ELSE <<0,1>>
OffAt(n) == StartHead = "away" /\ n = NN
Init ==
  LET m0 == [i \in 1..Min2(NN,MaxNP) |-> <<i,1>>] IN
  /\ up = [n \in Nodes |-> IF OffAt(n) THEN "off" ELSE "run"]
  /\ nxt = [n \in Nodes |-> IF StartFormed THEN 2 ELSE 1]
  /\ inc = [n \in Nodes |-> IF StartFormed /\ ~OffAt(n) THEN 1 ELSE 0]
  /\ key = inc
  /\ wk = [n \in Nodes |-> IF StartFormed /\ StartHead = "none" /\ n <= MaxNP THEN 1 ELSE 0]
  /\ winc = [n \in Nodes |-> IF StartFormed /\ StartHead = "none" /\ n <= MaxNP THEN 1 ELSE 0]
  /\ lst = wk
  /\ W = IF ~StartFormed THEN <<>>
         ELSE <<[g |-> 1, mem |-> m0, lv |-> {}, ph |-> IF StartHead = "none" THEN "running" ELSE "forming", res |-> Head0,
                 att |-> 1, wid |-> 0, hold |-> "no", qu |-> {}]>>
  /\ know = [n \in Nodes |-> Len(W)]
  /\ orph = [n \in Nodes |-> 0] /\ ex = [n \in Nodes |-> 0]
  /\ sav = [n \in Nodes |-> None] /\ disk = [n \in Nodes |-> IF OffAt(n) THEN {None,Head0} ELSE {None}]
  /\ hold = (IF StartHead = "away" THEN {NN} ELSE Nodes) /\ hist = (IF StartHead = "none" THEN <<None>> ELSE <<None,Head0>>)
  /\ rdy = {} /\ head = Head0 /\ failg = 0 /\ exits = {} /\ mx = [np |-> MaxNP, id |-> 0, stop |-> 0] /\ avail = TRUE
  /\ ask = [n \in Nodes |-> 0] /\ lvg = [n \in Nodes |-> FALSE] /\ came = [n \in Nodes |-> 0] /\ na = inc
  /\ psv = None /\ left = [n \in Nodes |-> 0] /\ pex = {} /\ ev = [n \in Nodes |-> 0] /\ sus = {} /\ job = 1 /\ ka = na /\ cutL = {} /\ net = {} /\ hung = {}
  /\ cutE = {} /\ cutP = {}
  /\ b = [crash |-> BCrash, restart |-> BRestart, freeze |-> BFreeze, thaw |-> BThaw, cute |-> BCutE, cutp |-> BCutP, etcd |-> BEtcd,
          delay |-> BDelay, loss |-> BLoss, wish |-> BWish, fail |-> BFail, exit |-> BExit, lapse |-> BLapse, over |-> 0,
          leave |-> BLeave, stop |-> BStop, failph |-> BFailPh, grace |-> BGrace, coll |-> BColl, cutl |-> BCutL, part |-> BPart, hang |-> BHang, slow |-> BSlow]
  /\ bad = {}

Run(n)   == up[n] = "run"
Stuck(n) == n \in hung /\ wk[n] > 0
E(n)     == Run(n) /\ avail /\ n \notin cutE                 \* agent alive and reaching the store
Lk(p,m) == IF p < m THEN <<p,m>> ELSE <<m,p>>
Link(p,m) == p \notin cutP /\ m \notin cutP /\ Lk(p,m) \notin cutL
Answers(p,m) == Run(m) /\ Link(p,m)                            \* p probes m
Healthy(m)   == Run(m) /\ m \notin cutE /\ m \notin cutP /\ (NN = 2 \/ \E q \in Nodes \ {m} : Lk(q,m) \notin cutL)
EndedNow == HasW /\ Last.ph \in Ended /\ Last.att = job           \* the job's own attempt ended
StopAsked == IF StopNames THEN mx.stop = job ELSE mx.stop # 0
StopForce == StopAsked /\ ~EndedNow
NoFaults == b.crash = BCrash /\ b.freeze = BFreeze /\ b.cute = BCutE /\ b.cutp = BCutP /\ b.etcd = BEtcd /\ b.loss = BLoss /\ b.fail = BFail
            /\ b.lapse = BLapse /\ b.grace = BGrace /\ b.cutl = BCutL /\ b.over = 0

RK(g,n,i) == IF ReadyInc THEN <<g,n,i>> ELSE <<g,n,0>>

-----------------------------------------------------------------------------
AllZero == Last.mem # <<>> /\ \A x \in Range(Last.mem) : RK(Last.g,x[1],x[2]) \in exits
(* The store: what a request compares, what it writes *)
OK(r) ==
  CASE r.t = "join"  -> key[r.n] = 0 /\ job = r.job
    [] r.t = "rereg" -> key[r.n] = 0 /\ (ReregGuard => Len(W) = r.rev)
    [] r.t = "prop"  -> /\ Len(W) = r.rev
                        /\ GuardSelf => key[r.n] = r.i
                        /\ GuardHead => head = r.hd
                        /\ EvictGuard => \A m \in r.kill : key[m] = r.kinc[m]
                        /\ DropGuard => \A x \in r.gone : key[x[1]] # x[2] \/ x[1] \in r.kill
                        /\ ExitCmp => r.ex = exits
                        /\ AnsCmp => r.una \subseteq sus
    [] r.t = "rdy"   -> HasW /\ Last.g = r.g /\ key[r.n] = r.i
    [] r.t = "ph"    -> Len(W) = r.rev /\ ((ExitCmp /\ r.ph = "stopped") => r.ex = exits)
    [] r.t = "hold"  -> Len(W) = r.rev /\ key[r.n] = r.i /\ (HoldCmp => \A x \in r.lost : key[x[1]] = r.kinc[x[1]])
                        /\ (AnsCmp => r.una \subseteq sus)
    [] r.t = "leave" -> key[r.n] = r.i
    [] r.t = "take"  -> TakeGuard => key[r.n] = r.i
    [] r.t = "wish"  -> mx.id = r.seen /\ Len(W) = r.rev
    [] r.t = "reopen" -> Len(W) = r.rev /\ (ReopenCmp = "all" => job = r.job /\ mx.id = r.seen)
    [] r.t \in {"sus","clr"} -> TRUE
    [] r.t = "ans"   -> r.s \in sus /\ key[r.n] = r.i
    [] r.t = "com"   -> /\ CASE CommitFence = "proposed" -> HasW /\ Last.g = r.g
                             [] CommitFence = "running"  -> RunGen = r.g
                             [] OTHER -> TRUE
                        /\ head = r.hd /\ (HoldFence => Last.ph # "waiting")
    [] r.t = "fail"  -> HasW /\ Last.g = r.g /\ failg # r.g /\ (FailCmp = "world" => Len(W) = r.rev)
    [] r.t = "exit"  -> HasW /\ Last.g = r.g /\ (ExitRev => ev[r.n] = r.seen)

Holders(c) == {m \in Nodes : c \in disk[m]}
EffectX(r, t5, gr) ==
  /\ key' = CASE r.t \in {"join","rereg"} -> [key EXCEPT ![r.n] = r.i]
              [] r.t \in {"leave","take"} -> [key EXCEPT ![r.n] = 0]
              [] r.t = "prop" -> [m \in Nodes |-> IF m \in r.kill THEN 0 ELSE key[m]]
              [] OTHER -> key
  /\ W' = CASE r.t = "prop" -> Append(W, r.w)
            [] r.t = "ph"   -> IF HasW THEN Append(W, [Last EXCEPT !.ph = r.ph, !.att = r.att])
                               ELSE <<[g |-> 0, mem |-> <<>>, lv |-> {}, ph |-> r.ph, res |-> head, att |-> r.att, wid |-> mx.id, hold |-> "no", qu |-> {}]>>
            [] r.t = "hold" -> Append(W, [Last EXCEPT !.ph = "waiting", !.hold = r.hold])
            [] OTHER -> W
  /\ rdy' = CASE r.t = "rdy" -> rdy \cup {RK(r.g,r.n,r.i)}
              [] r.t = "prop" -> {}                    \* ready/<old> is deleted by the proposal's range delete
              [] OTHER -> rdy
  /\ head' = CASE r.t = "com" -> r.id
               [] r.t = "prop" -> IF r.roll /\ RollHead THEN r.w.res ELSE head
               [] OTHER -> head
  /\ hold' = CASE r.t = "com" -> r.on
               [] r.t = "prop" -> IF r.roll /\ RollHead THEN Holders(r.w.res) ELSE hold
               [] OTHER -> hold
  /\ hist' = IF head' # head THEN Append(hist, head') ELSE hist
  /\ failg' = IF r.t = "fail" THEN r.g ELSE failg
  /\ exits' = CASE r.t = "exit" -> IF r.k = "zero" THEN exits \cup {RK(r.g,r.n,r.i)} ELSE exits \ {RK(r.g,r.n,r.i)}
                [] OTHER -> exits
  /\ pex' = CASE r.t = "exit" -> IF r.k = "plan" THEN pex \cup {RK(r.g,r.n,r.i)} ELSE pex \ {RK(r.g,r.n,r.i)}
              [] r.t = "prop" -> {}
              [] OTHER -> pex
  /\ ev' = CASE r.t = "exit" -> [ev EXCEPT ![r.n] = @ + 1]
             [] r.t = "prop" -> [n \in Nodes |-> 0]
             [] OTHER -> ev
  /\ left' = CASE r.t = "leave" -> [left EXCEPT ![r.n] = r.i]
               [] r.t = "join"  -> [left EXCEPT ![r.n] = 0]
               [] OTHER -> left
  /\ sus' = CASE r.t = "sus" -> sus \cup {r.s}
              [] r.t = "clr" -> sus \ {r.s}
              [] r.t = "ans" -> (sus \ {r.s}) \cup {[r.s EXCEPT !.a = TRUE]}
              [] r.t = "prop" -> {s \in sus : s.x \notin r.kill}
              [] OTHER -> sus
  /\ job' = IF r.t = "reopen" THEN job + 1 ELSE job
  /\ ka' = CASE r.t = "join" -> [ka EXCEPT ![r.n] = r.job] [] r.t = "rereg" -> [ka EXCEPT ![r.n] = na[r.n]] [] OTHER -> ka
  /\ mx' = CASE r.t = "wish" -> r.to
             [] r.t = "reopen" -> [np |-> MaxNP, id |-> mx.id + 1, stop |-> IF StopNames THEN mx.stop ELSE 0]
             [] OTHER -> mx
  /\ bad' = bad \cup (IF t5 THEN {"G5: a healthy member evicted"} ELSE {}) \cup
       (IF r.t = "com" /\ HasW /\ r.id[1] < Last.g THEN {"G2: commit of an older generation than the newest proposed"} ELSE {}) \cup
       (IF r.t = "com" /\ r.id[1] < RunGen THEN {"G2run: commit of an older generation than the newest running"} ELSE {}) \cup
       (IF r.t = "prop" /\ \E m \in r.kill : key[m] # 0 /\ key[m] # r.kinc[m] THEN {"G5: eviction deleted a newer incarnation"} ELSE {}) \cup
       (IF r.t \in {"prop","hold"} /\ \E s \in r.una : [s EXCEPT !.a = TRUE] \in sus
        THEN {"G5: a member is lost that answered"} ELSE {}) \cup
       (IF r.t = "take" /\ key[r.n] \notin {0,r.i} THEN {"TO: a take over deleted a newer incarnation"} ELSE {}) \cup
       (IF r.t = "prop" /\ r.roll /\ (\E m \in hold : head \in disk[m]) THEN {"RB: the head is given up though a holder has it"} ELSE {}) \cup
       (IF r.t = "prop" /\ ((HasW /\ Last.ph = "done") \/ EndedNow) THEN {"G8: a finished job restarted"} ELSE {}) \cup
       (IF r.t = "prop" /\ HasW /\ r.w.g # Last.g + 1 THEN {"G1"} ELSE {}) \cup
       (IF r.t = "prop" /\ \E x \in Range(r.w.mem) : key[x[1]] = x[2] /\ ka[x[1]] < r.w.att
        THEN {"G9: an agent of the ended attempt is in its successor"} ELSE {}) \cup
       (IF r.t = "prop" /\ na[r.n] < r.w.att THEN {"G9: an agent of the ended attempt proposes"} ELSE {}) \cup
       (IF r.t = "prop" /\ NoFaults /\ ~gr /\ psv # None /\ HasW /\ psv[1] = Last.g /\ head # psv THEN {"PS: a planned save is lost"} ELSE {}) \cup
       (IF r.t = "fail" /\ b.fail = BFail THEN {"PF: a planned stop counted as a failure"} ELSE {}) \cup
       (IF r.t = "com" /\ r.id[1] = head[1] /\ r.id[2] <= head[2] THEN {"CT: a save is committed twice"} ELSE {}) \cup
       (IF r.t = "prop" /\ HasW /\ AllZero THEN {"D1: a job that all ranks finished starts again"} ELSE {}) \cup
       (IF r.t = "ph" /\ r.ph = "stopped" /\ HasW /\ Last.att = job /\ AllZero THEN {"S2: a job that all ranks finished is stopped"} ELSE {}) \cup
       (IF r.t = "ph" /\ r.ph = "stopped" /\ mx.stop # job THEN {"S1: stopped by a request to an earlier attempt"} ELSE {}) \cup
       (IF r.t = "prop" /\ mx.stop = job /\ r.w.wid = mx.id /\ ~EndedNow THEN {"S3: a stop is taken as answered by a new world"} ELSE {}) \cup
       (IF r.t = "reopen" /\ StopForce THEN {"S4: a stop is lost by a new attempt"} ELSE {}) \cup
       (IF r.t = "reopen" /\ came[r.n] # 0 /\ came[r.n] # Len(W) THEN {"S5: an agent that came before the end reopens"} ELSE {}) \cup
       (IF r.t = "wish" /\ StopForce /\ r.to.stop # mx.stop THEN {"S6: a stop is lost by another wish"} ELSE {}) \cup
       (IF r.t = "hold" /\ r.hold = "un" /\ failg # Last.g /\ Last.ph \in {"running","finishing"} /\ (\E x \in r.lost : key[x[1]] # r.kinc[x[1]])
            /\ \A x \in Range(Last.mem) : key[x[1]] = x[2] /\ Healthy(x[1]) /\ inc[x[1]] = x[2]
            THEN {"G5: workers stopped by a Hold for a member that is there"} ELSE {})
Effect(r) == EffectX(r, FALSE, FALSE)
EffectG5(r, t5, gr) == EffectX(r, t5, gr)

Issue(r) == \/ (OK(r) = TRUE) /\ Effect(r) /\ UNCHANGED <<net, b>>
            \/ /\ b.delay > 0 /\ r \notin net
               /\ net' = net \cup {r} /\ b' = [b EXCEPT !.delay = @ - 1]
               /\ UNCHANGED storeV /\ UNCHANGED bad
Env == UNCHANGED <<avail, cutE, cutP, cutL, hung>>
Deliver == /\ avail
           /\ \E r \in net : /\ net' = net \ {r}
                             /\ IF OK(r) THEN Effect(r) ELSE UNCHANGED storeV /\ UNCHANGED bad
           /\ UNCHANGED nodeV /\ Env /\ UNCHANGED b
None_(n,t) == \A r \in net : ~(r.t = t /\ r.n = n)
-----------------------------------------------------------------------------
(* The agent                                                                *)
Observe(n) == /\ E(n)
              /\ \E k \in 1..Len(W) : /\ IF Monotone THEN k = Len(W) /\ k > know[n] ELSE k # know[n] /\ (k = Len(W) \/ (b.delay > 0 /\ k < know[n]))
                                      /\ know' = [know EXCEPT ![n] = k]
                                      /\ b' = IF k < know[n] THEN [b EXCEPT !.delay = @ - 1] ELSE b
              /\ UNCHANGED <<up,inc,nxt,wk,winc,orph,lst,ex,sav,disk,nodeX,net,bad>> /\ UNCHANGED storeV /\ Env

Me(n) == <<n, inc[n]>>
KW(n) == W[know[n]]
Rank0(n,g) == \E k \in 1..Len(W) : W[k].g = g /\ Len(W[k].mem) > 0 /\ W[k].mem[1][1] = n

StopOld(n) == /\ Run(n) /\ wk[n] > 0 /\ n \notin hung /\ know[n] > 0 /\ (KW(n).g > wk[n] \/ (KW(n).ph \in Ended /\ KW(n).g = wk[n]))
              /\ wk' = [wk EXCEPT ![n] = 0]
              /\ UNCHANGED <<up,inc,nxt,know,winc,orph,lst,ex,sav,disk,nodeX,net,bad,b>> /\ UNCHANGED storeV /\ Env
(* the world waits: stop; if planned, rank 0's workers save once more *)
StopWait(n) == /\ Run(n) /\ wk[n] > 0 /\ n \notin hung /\ know[n] > 0 /\ KW(n).ph = "waiting" /\ KW(n).g = wk[n]
               /\ wk' = [wk EXCEPT ![n] = 0] /\ ask' = [ask EXCEPT ![n] = wk[n]]
               /\ LET g == wk[n]
                      st == IF sav[n][1] = g THEN sav[n][2] ELSE ResOf(g)[2]
                  IN IF KW(n).hold = "pl" /\ Rank0(n,g) /\ st < MaxStep /\ (\A x \in Range(KW(n).mem) : ex[x[1]] # g)
                     THEN sav' = [sav EXCEPT ![n] = <<g,st+1>>] /\ psv' = <<g,st+1>>
                     ELSE UNCHANGED <<sav,psv>>
               /\ UNCHANGED <<up,inc,nxt,know,winc,orph,lst,ex,disk,lvg,came,na,net,bad,b>> /\ UNCHANGED storeV /\ Env

(* outside: read job and world; ended when I came: reopen first *)
Reopen(n) == /\ E(n) /\ inc[n] = 0 /\ wk[n] = 0 /\ came[n] > 0 /\ EndedNow /\ Last.ph # "done"
             /\ (ReopenOnce => came[n] = Len(W)) /\ None_(n,"reopen")
             /\ Issue([t |-> "reopen", n |-> n, job |-> job, rev |-> Len(W), seen |-> mx.id])
             /\ UNCHANGED nodeV /\ Env
Join(n) == /\ E(n) /\ inc[n] = 0 /\ wk[n] = 0 /\ nxt[n] <= MaxInc /\ key[n] = 0 /\ ~lvg[n]
           /\ ~EndedNow /\ ~(HasW /\ Last.ph = "done")
           /\ inc' = [inc EXCEPT ![n] = nxt[n]] /\ nxt' = [nxt EXCEPT ![n] = @ + 1] /\ na' = [na EXCEPT ![n] = job]
           /\ Issue([t |-> "join", n |-> n, i |-> nxt[n], job |-> job])
           /\ UNCHANGED <<up,know,wk,winc,orph,lst,ex,sav,disk,ask,lvg,came,psv>> /\ Env
(* same host, node lock held: the key of an earlier agent of this node goes at once *)
TakeOver(n) == /\ E(n) /\ inc[n] = 0 /\ wk[n] = 0 /\ key[n] # 0 /\ ~lvg[n] /\ ~EndedNow /\ None_(n,"take")
               /\ Issue([t |-> "take", n |-> n, i |-> key[n]])
               /\ UNCHANGED nodeV /\ Env
(* a join whose request was lost: try again with another incarnation        *)
JoinAgain(n) == /\ E(n) /\ inc[n] > 0 /\ key[n] = 0 /\ wk[n] = 0
                /\ (~HasW \/ \A k \in 1..Len(W) : Me(n) \notin Range(W[k].mem) \cup W[k].lv) = TRUE
                /\ None_(n,"join")
                /\ ~(HasW /\ Last.ph \in Ended /\ na[n] <= Last.att)
                /\ inc' = [inc EXCEPT ![n] = 0]
                /\ UNCHANGED <<up,nxt,know,wk,winc,orph,lst,ex,sav,disk,nodeX,net,bad,b>> /\ UNCHANGED storeV /\ Env

(* "lease not found": the key of my incarnation is gone                     *)
Lost(n) ==
  /\ E(n) /\ inc[n] > 0 /\ key[n] = 0 /\ HasW /\ ~(Last.ph \in Ended /\ na[n] <= Last.att)
  /\ (\E k \in 1..Len(W) : Me(n) \in Range(W[k].mem) \cup W[k].lv) = TRUE
  /\ left[n] # inc[n]
  /\ LET listed == (Me(n) \in Range(Last.mem) \/ (ReregLv /\ Me(n) \in Last.lv)) /\ ~(Last.ph \in Ended) IN
     IF LostLease = "rereg" /\ listed
     THEN /\ Issue([t |-> "rereg", n |-> n, i |-> inc[n], rev |-> Len(W)])
          /\ UNCHANGED nodeV
     ELSE /\ ~Stuck(n)
          /\ wk' = [wk EXCEPT ![n] = 0] /\ inc' = [inc EXCEPT ![n] = 0]
          /\ bad' = bad \cup (IF listed /\ wk[n] = Last.g /\ n \notin cutP THEN {"G5: workers of a healthy member stopped for a lost lease"} ELSE {})
          /\ UNCHANGED <<up,nxt,know,winc,orph,lst,ex,sav,disk,nodeX,net,b>> /\ UNCHANGED storeV
  /\ Env
(* registered for an attempt that is over, unlisted in the next one: dropped *)
DropAtt(n) == /\ NodeAtt /\ ~Stuck(n) /\ E(n) /\ inc[n] > 0 /\ know[n] = Len(W) /\ HasW /\ Last.att > na[n] /\ Me(n) \notin Range(Last.mem)
              /\ wk' = [wk EXCEPT ![n] = 0] /\ inc' = [inc EXCEPT ![n] = 0]
              /\ UNCHANGED <<up,nxt,know,winc,orph,lst,ex,sav,disk,nodeX,net,bad,b>> /\ UNCHANGED storeV /\ Env

(* ---- suspicion ---- *)
TI(x) == IF key[x] # 0 THEN key[x] ELSE IF HasW /\ \E y \in Range(Last.mem) : y[1] = x THEN (CHOOSE y \in Range(Last.mem) : y[1] = x)[2] ELSE 0
Dial(p,x) == p = x[1] \/ (Answers(p,x[1]) /\ inc[x[1]] = x[2])
Suspect(w,x) == /\ SusMode = "rec" /\ E(w) /\ w # x /\ inc[w] # 0 /\ key[w] = inc[w] /\ TI(x) # 0 /\ ~EndedNow
                /\ ~Answers(w,x) /\ (\A s \in sus : ~(s.x = x /\ s.w = w)) = TRUE
                /\ None_(w,"sus")
                /\ Issue([t |-> "sus", n |-> w, s |-> [x |-> x, i |-> TI(x), w |-> w, wi |-> inc[w],
                                                       s |-> IF up[x] = "off" /\ Link(w,x) THEN "refused" ELSE "silent", a |-> FALSE]])
                /\ UNCHANGED nodeV /\ Env
Clear(w) == /\ SusMode = "rec" /\ E(w)
            /\ \E s \in sus : s.w = w /\ s.wi = inc[w] /\ Answers(w,s.x) /\ Issue([t |-> "clr", n |-> w, s |-> s])
            /\ UNCHANGED nodeV /\ Env
Answer(n) == /\ SusMode = "rec" /\ E(n) /\ inc[n] # 0 /\ key[n] = inc[n] /\ None_(n,"ans")
             /\ \E s \in sus : s.x = n /\ s.i = inc[n] /\ s.s = "silent" /\ ~s.a /\ Issue([t |-> "ans", n |-> n, i |-> inc[n], s |-> s])
             /\ UNCHANGED nodeV /\ Env
WLive(p,r) == CASE SusLive = "no"  -> TRUE
                [] SusLive = "key" -> key[r.w] = r.wi
                [] OTHER -> r.w = p \/ (key[r.w] = r.wi /\ Answers(p,r.w) /\ inc[r.w] = r.wi /\ ~Dial(r.w,<<r.x,r.i>>))
Rec(p,x) == {r \in sus : r.x = x[1] /\ (SusInc => r.i = x[2]) /\ WLive(p,r)}
Apart(p) == \A q \in Nodes \ {p} : ~Answers(p,q)

(* ---- plan and propose ---- *)
Silent(p,m) == /\ m # p /\ ~Answers(p,m)
               /\ \/ key[m] = 0                                            \* the lease says so too
                  \/ Run(m) = FALSE /\ up[m] = "off" /\ p \notin cutP /\ m \notin cutP   \* dial refused
                  \/ \E q \in Nodes \ {p,m} : Run(q) /\ key[q] # 0 /\ p \notin cutP /\ q \notin cutP /\ ~Answers(q,m)
CanReturn(x) == Run(x[1]) /\ x[1] \notin cutE /\ inc[x[1]] = x[2]          \* would re-register within the window
Other(p,x) == (Run(x[1]) /\ inc[x[1]] # x[2] /\ (p = x[1] \/ Answers(p,x[1]))) \/ (key[x[1]] # 0 /\ key[x[1]] # x[2])  \* another incarnation
GoneTwo(p,x) == /\ x[1] # p /\ (SusDial => ~Dial(p,x))
                /\ LET R == Rec(p,x) IN
                   \/ \E r \in R : r.s = "refused"
                   \/ ~Apart(p) /\ \E r,q \in R : r.w # q.w
                   \/ (\E r \in R : TRUE) /\ key[x[1]] = 0 /\ ~CanReturn(x)
                   \/ key[x[1]] = 0 /\ ~CanReturn(x) /\ ~Dial(p,x)
                   \/ (\E r \in R : TRUE) /\ key[x[1]] # x[2] /\ ~CanReturn(x)
(* only two are registered, and the silent one does not answer in the store: a node that runs and reaches it answers, or at least
   renews its lease, before the watcher has waited long enough *)
Unanswered(p,x) == {r \in Rec(p,x) : r.w = p /\ r.wi = inc[p] /\ r.s = "silent" /\ ~r.a}
GoneAns(p,x) == /\ x[1] # p /\ (SusDial => ~Dial(p,x)) /\ key[x[1]] = x[2] /\ Cardinality({m \in Nodes : key[m] # 0}) = 2
                /\ Unanswered(p,x) # {} /\ (AnsWait => ~CanReturn(x))
GoneRec(p,x) == GoneTwo(p,x) \/ GoneAns(p,x)
(* the records that must stand as they are: nothing else says that these members are gone *)
Una(p) == IF SusMode # "rec" THEN {}
          ELSE UNION {Unanswered(p,x) : x \in {y \in {<<m,key[m]>> : m \in Nodes} : y[2] # 0 /\ GoneAns(p,y) /\ ~GoneTwo(p,y)}}
Gone(p,x) == IF Confirm THEN \/ IF SusMode = "rec" THEN GoneRec(p,x) ELSE Silent(p,x[1]) /\ ~CanReturn(x)
                             \/ Other(p,x) \/ left[x[1]] = x[2]
                        ELSE key[x[1]] # x[2]
(* the barrier limit passed for a node that cannot stop its worker, or (slow) too early for any *)
Missing(p,slow) == IF ~HasW \/ Last.ph # "forming" THEN {}
                   ELSE {x \in Range(Last.mem) \cup Last.lv : x[1] # p /\ key[x[1]] = x[2] /\ RK(Last.g,x[1],x[2]) \notin rdy /\ (slow \/ Stuck(x[1]))}
BGone(p,x) == Gone(p,x) \/ (BarrierDrop /\ key[x[1]] # x[2] /\ ~CanReturn(x))   \* no key for a whole window

Kill(p) == IF Confirm THEN {m \in Nodes : key[m] # 0 /\ \/ IF SusMode = "rec" THEN GoneRec(p,<<m,key[m]>>) ELSE Silent(p,m) /\ ~CanReturn(<<m,key[m]>>)
                                                        \/ IncKill /\ Run(m) /\ inc[m] # key[m] /\ (m = p \/ Answers(p,m))}
           ELSE {}
(* quarantine: a node that missed a barrier is in no plan until a world has run *)
Held == IF HasW /\ Last.ph = "forming" THEN Last.qu ELSE {}
Cand(p,ms) == {m \in Nodes : key[m] # 0 /\ (NodeAtt => ka[m] = job) /\ ~(m = p /\ lvg[p])} \ (Kill(p) \cup Held \cup {x[1] : x \in ms})
RECURSIVE SeqOf(_)
SeqOf(S) == IF S = {} THEN <<>> ELSE LET m == CHOOSE m \in S : \A x \in S : m <= x IN <<<<m,key[m]>>>> \o SeqOf(S \ {m})
Evict(p,ms) == Kill(p) \cup CASE BarrierMiss = "evict" -> {x[1] : x \in ms}
                                     [] BarrierMiss = "late"  -> {x[1] : x \in ms \cap Last.lv}
                                     [] OTHER -> {}
PlanMem(p,ms) ==
  LET old  == IF HasW THEN Last.mem ELSE <<>>
      surv == SelectSeq(old, LAMBDA x : key[x[1]] = x[2] /\ x[1] \in Cand(p,ms))
      rest == SeqOf(Cand(p,ms) \ {surv[i][1] : i \in 1..Len(surv)})
      all  == surv \o rest
  IN SubSeq(all, 1, Min2(mx.np, Len(all)))
Leaving(p, ms, mem) ==
  IF ~HasW \/ Leave = "none" THEN {}
  ELSE {x \in (Range(Last.mem) \cup (IF Leave = "carry" THEN Last.lv ELSE {})) :
          (key[x[1]] = x[2] \/ DropAs = "leaver") /\ x[1] \notin Evict(p,ms) /\ x \notin Range(mem)}
(* no key for the window, but it answers, and its worker ended: it cannot write that *)
CutEnded(p,x) == key[x[1]] # x[2] /\ ~CanReturn(x) /\ x[1] # p /\ Dial(p,x) /\ wk[x[1]] = 0
Recd(x) == RK(Last.g,x[1],x[2]) \in exits \cup pex \/ left[x[1]] = x[2]
Through(p) == \A x \in Range(Last.mem) : Recd(x) \/ Gone(p,x) \/ CutEnded(p,x) \/ failg = Last.g
OpenSus(p) == SusMode = "rec" /\ \E r \in sus : \E x \in Range(Last.mem) : r.x = x[1] /\ r.i = x[2] /\ ~Gone(p,x) /\ ~Dial(p,x)
Un(p) == \/ \E x \in Range(Last.mem) : (Gone(p,x) /\ (LeftCause \/ ~Recd(x))) \/ (CutEnded(p,x) /\ ~Recd(x) /\ Last.ph # "finishing")
         \/ failg = Last.g
(* a planned hold is through; the grace (a timer) ends it for a node that cannot answer, or by budget *)
ThroughPl(p,gr) == \A x \in Range(Last.mem) : Recd(x) \/ Gone(p,x) \/ ~CanReturn(x) \/ Stuck(x[1]) \/ gr
Differs == mx.id # Last.wid
Planned(mem) == HasW /\ (Differs \/ Len(mem) > Len(Last.mem))
AllIn == ExitCmp /\ HasW /\ Last.mem # <<>> /\ AllZero
Verdict(p) == SusWait = "window" \/ ~OpenSus(p) \/ \E x \in Range(Last.mem) : Gone(p,x) /\ ~Recd(x)
Cause(p, ms, mem, lv, gr) ==
  IF ~HasW THEN TRUE
  ELSE CASE Last.ph \in Ended -> Last.att < job
         [] Last.ph = "finishing" -> (\E x \in Range(Last.mem) : Gone(p,x) \/ CutEnded(p,x) \/ failg = Last.g) /\ Through(p)
         [] Last.ph = "forming"   -> /\ ms # {} \/ (\E x \in Range(Last.mem) \cup Last.lv : BGone(p,x)) \/ Len(mem) # Len(Last.mem) \/ Differs
                                     /\ SamePlan \/ mem # Last.mem \/ lv # Last.lv \/ Differs
         [] Last.ph = "waiting"   -> IF Last.hold = "pl" THEN Un(p) \/ ThroughPl(p,gr)
                                     ELSE (WaitCause \/ Un(p) \/ Planned(mem)) /\ Verdict(p)
         [] OTHER -> Un(p) /\ Verdict(p)
(* every old member that the plan loses must be lost for good, or cut by np *)
DropOK(p, mem) == ~HasW \/ ~Confirm \/
                  \A x \in Range(Last.mem) : x \in Range(mem) \/ key[x[1]] = x[2] \/ BGone(p,x)
MayAct(n) == E(n) /\ inc[n] > 0 /\ know[n] = Len(W) /\ ((NodeAtt /\ HasW) => na[n] >= Last.att) /\ (EndedProp \/ ~(HasW /\ Last.ph \in Ended /\ na[n] <= Last.att))
PropReq(n, ms, mem, res, roll) ==
  LET lv == Leaving(n,ms,mem) IN
  [t |-> "prop", n |-> n, i |-> inc[n], rev |-> Len(W), hd |-> head, roll |-> roll, kill |-> Evict(n,ms), una |-> Una(n), kinc |-> [m \in Nodes |-> key[m]], ex |-> exits,
   w |-> [g |-> IF HasW THEN Last.g + 1 ELSE 1, mem |-> mem, lv |-> lv, ph |-> "forming", res |-> res, att |-> job, wid |-> mx.id, hold |-> "no",
         qu |-> Held \cup {x[1] : x \in ms}],
   gone |-> IF HasW THEN {x \in Range(Last.mem) \cup Last.lv : x \notin Range(mem) /\ x \notin lv} ELSE {}]
MayPropose(n) == MayAct(n) /\ (GuardSelf => key[n] = inc[n]) /\ (HasW => Last.g < MaxGen) /\ (StopHold => ~StopForce) /\ ~AllIn
(* a plan without a node that is there, though np leaves room for it; the barrier limit alone may do that *)
Evicts(mem, ms) == HasW /\ \E x \in Range(Last.mem) \ ms : x \notin Range(mem) /\ Healthy(x[1]) /\ inc[x[1]] = x[2] /\ ~lvg[x[1]]
                                                  /\ (key[x[1]] # x[2] \/ Len(mem) < mx.np) /\ (NodeAtt => ka[x[1]] = job)
(* gr: the grace of a planned Hold passed too early; sl: the barrier limit did *)
Propose(n) ==
  /\ MayPropose(n)
  /\ \E gr \in (IF b.grace > 0 THEN {FALSE,TRUE} ELSE {FALSE}), sl \in (IF b.slow > 0 THEN {FALSE,TRUE} ELSE {FALSE}) :
     LET ms  == Missing(n,sl)
         mem == PlanMem(n,ms)
         r   == PropReq(n, ms, mem, head, FALSE)
     IN /\ Len(mem) >= MinNP
        /\ Cause(n, ms, mem, r.w.lv, gr)
        /\ gr => ~Cause(n, ms, mem, r.w.lv, FALSE)
        /\ sl => ms # Missing(n,FALSE)
        /\ DropOK(n, mem) = TRUE
        /\ \/ /\ (OK(r) = TRUE) /\ UNCHANGED net /\ b' = [b EXCEPT !.grace = IF gr THEN @ - 1 ELSE @, !.slow = IF sl THEN @ - 1 ELSE @]
              /\ EffectG5(r, Evicts(mem, ms), gr)
           \/ /\ ~gr /\ b.delay > 0 /\ r \notin net /\ net' = net \cup {r} /\ b' = [b EXCEPT !.delay = @ - 1, !.slow = IF sl THEN @ - 1 ELSE @]
              /\ UNCHANGED storeV /\ UNCHANGED bad
  /\ UNCHANGED nodeV /\ Env

(* ---- rollback: the forming world cannot be resumed from its head; the newest older checkpoint that a node has ---- *)
Reads(p,c) == c \in disk[p] \/ \E m \in Nodes : c \in disk[m] /\ Answers(p,m)
Unreadable(p) ==
  /\ ~Reads(p,head)
  /\ CASE RollWhen = "lost" -> (\A m \in hold : m = p \/ Answers(p,m)) /\ \A m \in Nodes : key[m] # 0 => head \notin disk[m]
       [] RollWhen = "away" -> TRUE
       [] OTHER -> FALSE
Rollback(n) ==
  /\ HasW /\ Last.ph = "forming" /\ Unreadable(n) /\ MayPropose(n)
  /\ LET mem  == PlanMem(n,{})
         back == {k \in 1..Len(hist) : hist[k] # head /\ Reads(n,hist[k])}
     IN /\ Len(mem) >= MinNP /\ DropOK(n, mem) = TRUE /\ back # {}
        /\ Issue(PropReq(n, {}, mem, hist[CHOOSE k \in back : \A j \in back : j <= k], TRUE))
  /\ UNCHANGED nodeV /\ Env

(* ---- hold ---- *)
Hold(n) ==
  /\ MayAct(n) /\ key[n] = inc[n] /\ HasW
  /\ None_(n,"hold")
  /\ LET mem  == PlanMem(n,{})
         lostm == {x \in Range(Last.mem) : Gone(n,x)}
         early == StopForce \/ (lvg[n] /\ Me(n) \in Range(Last.mem) /\ RK(Last.g,n,inc[n]) \notin exits)
         pl   == \/ Last.ph \in {"forming","running"} /\ (Planned(mem) \/ early)
                 \/ Last.ph = "finishing" /\ FinStop = "hold" /\ early
         un   == /\ \/ Last.ph \in {"forming","running"} \/ (Last.ph = "waiting" /\ Last.hold = "pl") \/ (Last.ph = "finishing" /\ Through(n) /\ ~AllZero)
                 /\ Un(n)
                 /\ Len(mem) < MinNP \/ failg = Last.g
         rq(h) == [t |-> "hold", n |-> n, i |-> inc[n], rev |-> Len(W), hold |-> h, lost |-> IF h = "un" THEN lostm ELSE {},
                   una |-> IF h = "un" THEN Una(n) ELSE {}, kinc |-> [m \in Nodes |-> key[m]]]
     IN \/ pl /\ Issue(rq("pl"))
        \/ un /\ Issue(rq("un"))
  /\ UNCHANGED nodeV /\ Env

(* ---- barrier ---- *)
Ready(n) ==
  /\ E(n) /\ know[n] > 0 /\ KW(n).ph = "forming" /\ wk[n] = 0
  /\ key[n] = inc[n]
  /\ Me(n) \in Range(KW(n).mem) \cup KW(n).lv
  /\ RK(KW(n).g, n, inc[n]) \notin rdy
  /\ \A r \in net : ~(r.t = "rdy" /\ r.n = n /\ r.g = KW(n).g)
  /\ IF Me(n) \in Range(KW(n).mem)
     THEN Reads(n, KW(n).res) = TRUE /\ disk' = [disk EXCEPT ![n] = @ \cup {KW(n).res}]
     ELSE UNCHANGED disk
  /\ Issue([t |-> "rdy", n |-> n, i |-> inc[n], g |-> KW(n).g])
  /\ UNCHANGED <<up,inc,nxt,know,wk,winc,orph,lst,ex,sav,nodeX>> /\ Env
Ph(n,ph) == Issue([t |-> "ph", n |-> n, rev |-> Len(W), ph |-> ph, att |-> job, ex |-> exits]) /\ UNCHANGED nodeV /\ Env
TurnRunning(n) ==
  /\ MayAct(n) /\ HasW /\ Last.ph = "forming"
  /\ \A x \in Range(Last.mem) : RK(Last.g,x[1],x[2]) \in rdy
  /\ (\A x \in Last.lv : RK(Last.g,x[1],x[2]) \in rdy \/ key[x[1]] # x[2]) = TRUE
  /\ Ph(n,"running")
Start(n) ==
  /\ Run(n) /\ know[n] > 0 /\ KW(n).ph \in (IF StartFin THEN {"running","finishing"} ELSE {"running"}) /\ Me(n) \in Range(KW(n).mem)
  /\ wk[n] = 0 /\ lst[n] < KW(n).g
  /\ wk' = [wk EXCEPT ![n] = KW(n).g] /\ winc' = [winc EXCEPT ![n] = inc[n]] /\ lst' = [lst EXCEPT ![n] = KW(n).g]
  /\ UNCHANGED <<up,inc,nxt,know,orph,ex,sav,disk,nodeX,net,bad,b>> /\ UNCHANGED storeV /\ Env

(* ---- workers ---- *)
WGen(n) == IF wk[n] > 0 THEN wk[n] ELSE orph[n]
Save(n) == /\ WGen(n) > 0 /\ Rank0(n, WGen(n)) = TRUE                \* also while the agent is frozen, or gone
           /\ LET g == WGen(n)
                  s == IF sav[n][1] = g THEN sav[n][2] ELSE ResOf(g)[2]
              IN s < MaxStep /\ sav' = [sav EXCEPT ![n] = <<g, s+1>>]
           /\ UNCHANGED <<up,inc,nxt,know,wk,winc,orph,lst,ex,disk,nodeX,net,bad,b>> /\ UNCHANGED storeV /\ Env
Replicate(n,m) == /\ Run(n) /\ inc[n] > 0 /\ sav[n] # None /\ (m # n \/ ~ReplicaGuard) /\ Answers(n,m)
                  /\ (~(sav[n] \in disk[n] /\ \E q \in Nodes \ {n} : sav[n] \in disk[q])) = TRUE
                  /\ disk' = [disk EXCEPT ![n] = @ \cup {sav[n]}, ![m] = @ \cup {sav[n]}]
                  /\ UNCHANGED <<up,inc,nxt,know,wk,winc,orph,lst,ex,sav,nodeX,net,bad,b>> /\ UNCHANGED storeV /\ Env
(* what its workers of one generation wrote and it captured; in order: nothing older than the head that this generation made *)
InOrder(c) == CASE CommitOrder = "own"  -> ~(head[1] = c[1] /\ c[2] <= head[2])
                [] CommitOrder = "step" -> \A k \in 1..Len(hist) : c[2] > hist[k][2]
                [] OTHER -> TRUE
Commit(n) == /\ E(n) /\ inc[n] > 0 /\ know[n] > 0 /\ sav[n] # None
             /\ \E c \in disk[n] :
                /\ c[1] = sav[n][1] /\ c # head /\ InOrder(c)
                /\ ReplicaGuard => Cardinality(Holders(c)) >= 2
                /\ LET g == IF Stamp = "worker" THEN c[1] ELSE KW(n).g IN
                   Issue([t |-> "com", n |-> n, i |-> inc[n], g |-> g, id |-> c, hd |-> head, on |-> Holders(c)])
             /\ UNCHANGED nodeV /\ Env
WorkerFail(n) == /\ b.fail > 0 /\ wk[n] > 0 /\ wk' = [wk EXCEPT ![n] = 0] /\ b' = [b EXCEPT !.fail = @ - 1]
                 /\ UNCHANGED <<up,inc,nxt,know,winc,orph,lst,ex,sav,disk,nodeX,net,bad>> /\ UNCHANGED storeV /\ Env
(* the collective breaks because another member's workers were stopped on request *)
CollFail(n) == /\ b.coll > 0 /\ wk[n] > 0 /\ (\E m \in Nodes : ask[m] = wk[n]) /\ wk' = [wk EXCEPT ![n] = 0] /\ b' = [b EXCEPT !.coll = @ - 1]
               /\ UNCHANGED <<up,inc,nxt,know,winc,orph,lst,ex,sav,disk,nodeX,net,bad>> /\ UNCHANGED storeV /\ Env
WorkerExit(n) == /\ b.exit > 0 /\ wk[n] > 0 /\ wk' = [wk EXCEPT ![n] = 0] /\ b' = [b EXCEPT !.exit = @ - 1]
                 /\ ex' = [ex EXCEPT ![n] = wk[n]]
                 /\ UNCHANGED <<up,inc,nxt,know,winc,orph,lst,sav,disk,nodeX,net,bad>> /\ UNCHANGED storeV /\ Env
MyRun(n,P) == know[n] > 0 /\ HasW /\ know[n] = Len(W) /\ Last.ph \in P /\ Me(n) \in Range(Last.mem) /\ lst[n] = Last.g /\ wk[n] = 0
ReportFail(n) == /\ E(n) /\ MyRun(n, IF FailCmp = "world" THEN {"running","finishing"} ELSE {"running","finishing","waiting"})
                 /\ ex[n] # Last.g /\ ask[n] # Last.g /\ failg # Last.g /\ None_(n,"fail")
                 /\ RK(Last.g,n,inc[n]) \notin pex
                 /\ Issue([t |-> "fail", n |-> n, g |-> Last.g, rev |-> Len(W)])
                 /\ UNCHANGED nodeV /\ Env
Exit(n,k) == /\ Issue([t |-> "exit", n |-> n, i |-> inc[n], g |-> Last.g, k |-> k, seen |-> ev[n]]) /\ UNCHANGED nodeV /\ Env
ReportExit(n) == /\ E(n) /\ MyRun(n,{"running","finishing","waiting"}) /\ ex[n] = Last.g /\ RK(Last.g,n,inc[n]) \notin exits
                 /\ \A r \in net : ~(r.t = "exit" /\ r.k = "zero" /\ r.n = n /\ r.g = Last.g)
                 /\ Exit(n,"zero")
(* the first of several workers of the node ended: the others' codes are null *)
ReportPart(n) == /\ E(n) /\ b.part > 0 /\ know[n] = Len(W) /\ HasW /\ Last.ph = "running" /\ wk[n] = Last.g /\ Me(n) \in Range(Last.mem)
                 /\ LET r == [t |-> "exit", n |-> n, i |-> inc[n], g |-> Last.g, k |-> "part", seen |-> ev[n]] IN
                    \/ OK(r) /\ Effect(r) /\ UNCHANGED net /\ b' = [b EXCEPT !.part = @ - 1]
                    \/ b.delay > 0 /\ net' = net \cup {r} /\ b' = [b EXCEPT !.delay = @ - 1, !.part = @ - 1] /\ UNCHANGED storeV /\ UNCHANGED bad
                 /\ UNCHANGED nodeV /\ Env
Saved(n,g) == sav[n][1] # g \/ sav[n] = head \/ ~Rank0(n,g)
PExit(n) == /\ E(n) /\ know[n] = Len(W) /\ HasW /\ Last.ph = "waiting" /\ Last.hold = "pl" /\ Me(n) \in Range(Last.mem) /\ wk[n] = 0 /\ ~lvg[n]
            /\ (ex[n] # Last.g \/ lst[n] # Last.g) /\ RK(Last.g,n,inc[n]) \notin exits \cup pex
            /\ PExitAfter = "commit" => (Saved(n,Last.g) \/ MaxStep = 0)
            /\ \A r \in net : ~(r.t = "exit" /\ r.k = "plan" /\ r.n = n /\ r.g = Last.g)
            /\ Exit(n,"plan")
LeaveReq(n) == /\ E(n) /\ lvg[n] /\ inc[n] > 0 /\ key[n] = inc[n] /\ wk[n] = 0 /\ know[n] = Len(W) /\ None_(n,"leave")
               /\ HasW => \/ Last.ph \in Ended
                          \/ Me(n) \notin Range(Last.mem)
                          \/ Last.ph = "waiting" /\ (Last.hold = "un" \/ Saved(n,Last.g) \/ PExitAfter = "stop")
                          \/ Last.ph \in {"running","finishing"} /\ RK(Last.g,n,inc[n]) \in exits
               /\ Issue([t |-> "leave", n |-> n, i |-> inc[n]])
               /\ UNCHANGED nodeV /\ Env
Off(n) == /\ up' = [up EXCEPT ![n] = "off"] /\ wk' = [wk EXCEPT ![n] = 0] /\ inc' = [inc EXCEPT ![n] = 0] /\ lst' = [lst EXCEPT ![n] = 0]
          /\ ex' = [ex EXCEPT ![n] = 0] /\ know' = [know EXCEPT ![n] = 0] /\ ask' = [ask EXCEPT ![n] = 0] /\ lvg' = [lvg EXCEPT ![n] = FALSE]
          /\ UNCHANGED <<nxt,winc,orph,sav,disk,came,na,psv,net,bad,b,W,rdy,head,failg,exits,mx,storeX>> /\ Env
Went(n) == /\ Run(n) /\ lvg[n] /\ wk[n] = 0 /\ (inc[n] = 0 \/ (E(n) /\ key[n] = 0)) /\ Off(n) /\ UNCHANGED key
(* the world it belonged or stood by to ended *)
End(n) == /\ E(n) /\ HasW /\ ~Stuck(n) /\ Last.ph \in Ended
          /\ \/ inc[n] > 0 /\ na[n] <= Last.att
             \/ inc[n] = 0 /\ Last.att = job /\ (came[n] # Len(W) \/ Last.ph = "done") /\ (ReopenOnce \/ came[n] = 0)
          /\ Off(n)
          /\ IF inc[n] > 0 /\ key[n] = inc[n] THEN key' = [key EXCEPT ![n] = 0] \/ (b.over = 0 /\ UNCHANGED key) ELSE UNCHANGED key
Finishing(n) == /\ MayAct(n) /\ HasW /\ Last.ph = "running" /\ \E x \in Range(Last.mem) : RK(Last.g,x[1],x[2]) \in exits
                /\ Ph(n,"finishing")
Done(n) == /\ MayAct(n) /\ HasW /\ Last.mem # <<>> /\ (Last.ph = "finishing" \/ (DoneWait /\ Last.ph = "waiting")) /\ failg # Last.g
           /\ (\A x \in Range(Last.mem) : RK(Last.g,x[1],x[2]) \in exits \/ (DoneRule = "live" /\ key[x[1]] # x[2])) = TRUE
           /\ Ph(n,"done")
Stop(n) == /\ MayAct(n) /\ key[n] = inc[n] /\ StopForce
           /\ IF HasW /\ Last.att = job THEN Last.ph = "waiting" /\ ~AllIn /\ (Last.hold = "un" \/ Un(n) \/ ThroughPl(n,FALSE)) ELSE StopNone
           /\ Ph(n,"stopped")
Fail(n) == /\ b.failph > 0 /\ MayAct(n) /\ HasW /\ failg = Last.g /\ Last.ph \in {"running","finishing","waiting"}
           /\ (OK([t |-> "ph", n |-> n, rev |-> Len(W), ph |-> "failed", att |-> job, ex |-> exits]) /\ b' = [b EXCEPT !.failph = @ - 1] /\ UNCHANGED net
               /\ Effect([t |-> "ph", n |-> n, rev |-> Len(W), ph |-> "failed", att |-> job, ex |-> exits]))
           /\ UNCHANGED nodeV /\ Env

-----------------------------------------------------------------------------
(* Faults                                                                   *)
Crash(n) == /\ b.crash > 0 /\ up[n] # "off"
            /\ up' = [up EXCEPT ![n] = "off"] /\ orph' = [orph EXCEPT ![n] = IF wk[n] > 0 THEN wk[n] ELSE @] /\ wk' = [wk EXCEPT ![n] = 0]
            /\ inc' = [inc EXCEPT ![n] = 0] /\ lst' = [lst EXCEPT ![n] = 0] /\ ex' = [ex EXCEPT ![n] = 0] /\ know' = [know EXCEPT ![n] = 0]
            /\ ask' = [ask EXCEPT ![n] = 0] /\ lvg' = [lvg EXCEPT ![n] = FALSE]
            /\ \/ b' = [b EXCEPT !.crash = @ - 1] /\ UNCHANGED <<disk,sav>>
               \/ /\ b.loss > 0 /\ b' = [b EXCEPT !.crash = @ - 1, !.loss = @ - 1]
                  /\ disk' = [disk EXCEPT ![n] = {None}] /\ sav' = [sav EXCEPT ![n] = None]
            /\ UNCHANGED <<nxt,winc,came,na,psv,net,bad>> /\ UNCHANGED storeV /\ Env
KillOrphans(n) == /\ orph[n] > 0 /\ n \notin hung /\ orph' = [orph EXCEPT ![n] = 0]
                  /\ UNCHANGED <<up,inc,nxt,know,wk,winc,lst,ex,sav,disk,nodeX,net,bad,b>> /\ UNCHANGED storeV /\ Env
Restart(n) == /\ up[n] = "off" /\ b.restart > 0 /\ (OrphanWait => orph[n] = 0)
              /\ up' = [up EXCEPT ![n] = "run"] /\ sav' = [sav EXCEPT ![n] = None] /\ b' = [b EXCEPT !.restart = @ - 1]
              /\ came' = [came EXCEPT ![n] = IF EndedNow THEN Len(W) ELSE 0]
              /\ UNCHANGED <<inc,nxt,know,wk,winc,orph,lst,ex,disk,ask,lvg,na,psv,net,bad>> /\ UNCHANGED storeV /\ Env
Freeze(n) == /\ b.freeze > 0 /\ Run(n) /\ up' = [up EXCEPT ![n] = "froz"] /\ b' = [b EXCEPT !.freeze = @ - 1]
             /\ UNCHANGED <<inc,nxt,know,wk,winc,orph,lst,ex,sav,disk,nodeX,net,bad>> /\ UNCHANGED storeV /\ Env
Thaw(n) == /\ b.thaw > 0 /\ up[n] = "froz" /\ up' = [up EXCEPT ![n] = "run"] /\ b' = [b EXCEPT !.thaw = @ - 1]
           /\ UNCHANGED <<inc,nxt,know,wk,winc,orph,lst,ex,sav,disk,nodeX,net,bad>> /\ UNCHANGED storeV /\ Env
(* a driver hang: the worker cannot be killed any more *)
Hang(n) == /\ b.hang > 0 /\ wk[n] > 0 /\ n \notin hung /\ hung' = hung \cup {n} /\ b' = [b EXCEPT !.hang = @ - 1]
           /\ UNCHANGED <<avail,cutE,cutP,cutL,net,bad>> /\ UNCHANGED nodeV /\ UNCHANGED storeV
SigTerm(n) == /\ b.leave > 0 /\ Run(n) /\ inc[n] > 0 /\ ~lvg[n] /\ lvg' = [lvg EXCEPT ![n] = TRUE] /\ b' = [b EXCEPT !.leave = @ - 1]
              /\ UNCHANGED <<up,inc,nxt,know,wk,winc,orph,lst,ex,sav,disk,ask,came,na,psv,net,bad>> /\ UNCHANGED storeV /\ Env
KeyOnly == UNCHANGED <<W,rdy,head,failg,exits,mx,storeX,net,bad>> /\ UNCHANGED nodeV
Expire(n) == /\ avail /\ key[n] # 0 /\ (~Run(n) \/ n \in cutE \/ key[n] # inc[n]) = TRUE     \* only a node that cannot renew
             /\ key' = [key EXCEPT ![n] = 0] /\ UNCHANGED b
             /\ KeyOnly /\ Env
CutOnly == UNCHANGED <<net,bad,hung>> /\ UNCHANGED nodeV /\ UNCHANGED storeV
CutE(n) == /\ b.cute > 0 /\ n \notin cutE /\ cutE' = cutE \cup {n} /\ b' = [b EXCEPT !.cute = @ - 1]
           /\ UNCHANGED <<avail,cutP,cutL>> /\ CutOnly
HealE(n) == /\ n \in cutE /\ cutE' = cutE \ {n} /\ UNCHANGED <<avail,cutP,cutL,b>> /\ CutOnly
CutP(n) == /\ b.cutp > 0 /\ n \notin cutP /\ cutP' = cutP \cup {n} /\ b' = [b EXCEPT !.cutp = @ - 1]
           /\ UNCHANGED <<avail,cutE,cutL>> /\ CutOnly
HealP(n) == /\ n \in cutP /\ cutP' = cutP \ {n} /\ UNCHANGED <<avail,cutE,cutL,b>> /\ CutOnly
CutLink(n) == /\ b.cutl > 0 /\ \E m \in Nodes : n < m /\ <<n,m>> \notin cutL /\ cutL' = cutL \cup {<<n,m>>}
              /\ b' = [b EXCEPT !.cutl = @ - 1] /\ UNCHANGED <<avail,cutE,cutP>> /\ CutOnly
EtcdDown == /\ b.etcd > 0 /\ avail /\ avail' = FALSE /\ b' = [b EXCEPT !.etcd = @ - 1]
            /\ UNCHANGED <<cutE,cutP,cutL>> /\ CutOnly
EtcdUp == /\ ~avail /\ avail' = TRUE /\ \/ UNCHANGED key \/ key' = [n \in Nodes |-> 0]       \* a restart, or a stall
          /\ UNCHANGED <<cutE,cutP,cutL,hung,b>> /\ KeyOnly
Lapse(n) == /\ b.lapse > 0 /\ key[n] # 0 /\ avail /\ key' = [key EXCEPT ![n] = 0] /\ b' = [b EXCEPT !.lapse = @ - 1]  \* etcd drops one healthy lease
            /\ KeyOnly /\ Env
WishOK == WishCond = "phase" => ~(HasW /\ Last.ph \in Ended)
Ask(to, f) == LET r == [t |-> "wish", n |-> 0, seen |-> mx.id, rev |-> Len(W), to |-> to] IN
              /\ \/ OK(r) /\ Effect(r) /\ UNCHANGED net /\ b' = [b EXCEPT ![f] = @ - 1]
                 \/ b.delay > 0 /\ net' = net \cup {r} /\ b' = [b EXCEPT !.delay = @ - 1, ![f] = @ - 1] /\ UNCHANGED storeV /\ UNCHANGED bad
              /\ UNCHANGED nodeV /\ Env
Wish == /\ b.wish > 0 /\ avail /\ ~EndedNow /\ WishOK
        /\ \E v \in MinNP..NN : v # mx.np /\ Ask([np |-> v, id |-> mx.id + 1, stop |-> IF WishKeep THEN mx.stop ELSE 0], "wish")
StopAsk == /\ b.stop > 0 /\ avail /\ ~EndedNow /\ WishOK /\ mx.stop # job
           /\ Ask([mx EXCEPT !.id = @ + 1, !.stop = job], "stop")

AgentStep(n) == Observe(n) \/ StopOld(n) \/ StopWait(n) \/ Reopen(n) \/ TakeOver(n) \/ Join(n) \/ JoinAgain(n) \/ Lost(n)
                \/ DropAtt(n) \/ Propose(n) \/ Rollback(n) \/ Hold(n)
                \/ Ready(n) \/ TurnRunning(n) \/ Start(n) \/ ReportFail(n) \/ ReportExit(n) \/ PExit(n) \/ LeaveReq(n) \/ Went(n) \/ End(n)
                \/ Finishing(n) \/ Done(n) \/ Stop(n) \/ Clear(n) \/ Answer(n) \/ \E m \in Nodes : Suspect(n,m)
CkptStep(n) == Commit(n) \/ \E m \in Nodes : Replicate(n,m)
FaultStep(n) == WorkerFail(n) \/ CollFail(n) \/ WorkerExit(n) \/ ReportPart(n) \/ Crash(n) \/ Restart(n) \/ Freeze(n) \/ Thaw(n) \/ SigTerm(n)
                \/ CutE(n) \/ CutP(n) \/ CutLink(n) \/ Lapse(n) \/ Hang(n) \/ Fail(n)
HealStep(n) == KillOrphans(n) \/ Expire(n) \/ HealE(n) \/ HealP(n)
(* G6 by deadlock: at any moment all faults may stop for good (Over); then only non-fault steps remain.  Each of them
   moves a bounded measure forward, so liveness = no terminal state is unsettled.  TLC's deadlock check finds those. *)
CanWork(n) == Healthy(n) /\ ~Stuck(n) /\ ~lvg[n] /\ (nxt[n] <= MaxInc \/ (inc[n] # 0 /\ na[n] = job))
Enough == Cardinality({n \in Nodes : CanWork(n)}) >= MinNP
SettledQ == /\ HasW
            /\ \A n \in Nodes : ~(Healthy(n) /\ lvg[n] /\ ~Stuck(n))                                \* a node that was asked to leave has left
            /\ \/ Last.ph = "done"
               \/ Last.ph \in {"failed","stopped"} /\ Last.att = job /\ \A n \in Nodes : ~E(n) \/ Stuck(n)
               \/ ~StopForce /\ Last.ph = "running" /\ \A x \in Range(Last.mem) : wk[x[1]] = Last.g /\ Run(x[1])
               \/ ~(StopForce /\ FinStop = "hold") /\ Last.ph = "finishing" /\ \E x \in Range(Last.mem) : wk[x[1]] = Last.g   \* then a person decides
Idle == \/ ~Enough /\ ~StopForce                                                       \* below min: it may wait
        \/ ~StopForce /\ HasW /\ Last.ph = "forming" /\ (\E m \in hold : ~Healthy(m))       \* a holder is away: it waits,
           /\ \A n \in Nodes : Healthy(n) => ~Reads(n,Last.res)                          \* and no other node has the resume
        \/ \A n \in Nodes : ~(E(n) /\ CanWork(n))                                        \* no node there to act
Over == /\ LiveMode /\ b.over = 0 /\ b' = [f \in DOMAIN b |-> IF f = "over" THEN 1 ELSE 0]
        /\ UNCHANGED <<net,bad>> /\ UNCHANGED nodeV /\ UNCHANGED storeV /\ Env
Rest == b.over = 1 /\ (SettledQ \/ Idle) = TRUE /\ UNCHANGED vars
NonFault == (\E n \in Nodes : AgentStep(n) \/ KillOrphans(n) \/ Expire(n) \/ CkptStep(n)) \/ Deliver \/ EtcdUp
Next == \/ NonFault
        \/ b.over = 0 /\ (EtcdDown \/ Wish \/ StopAsk \/ \E n \in Nodes : Save(n) \/ FaultStep(n) \/ HealE(n) \/ HealP(n))
        \/ Over \/ Rest
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* Properties                                                               *)
TypeOK == \A n \in Nodes : know[n] <= Len(W)
G1 == /\ \A j,k \in 1..Len(W) : (j < k) => (W[j].g < W[k].g \/ (W[j].g = W[k].g /\ W[j].mem = W[k].mem /\ W[j].res = W[k].res))
      /\ \A k \in 1..Len(W) : W[k].g > 0 => /\ Len(W[k].mem) >= MinNP /\ Len(W[k].mem) <= NN
                              /\ \A i,j \in 1..Len(W[k].mem) : i # j => W[k].mem[i][1] # W[k].mem[j][1]
NoBad == bad = {}
G2 == \A x \in bad : x # "G2: commit of an older generation than the newest proposed"
(* an acknowledged checkpoint is what the newest world resumes from, or was made by it *)
G3a == HasW => (head = Last.res \/ head[1] = Last.g)
G3b == StartHead = "none" /\ BLoss - b.loss < 2 => Cardinality(Holders(head)) >= (IF b.loss = BLoss THEN Min2(2,NN) ELSE 1)
(* a worker of an older generation may run beside a newer one only on a node whose incarnation is no longer registered *)
Old(m,g) == (wk[m] > 0 /\ wk[m] < g) \/ (orph[m] > 0 /\ orph[m] < g)
G4b == \A n,m \in Nodes : wk[n] > 0 /\ wk[m] > 0 /\ wk[m] < wk[n] => key[m] # winc[m]
(* a node that reported Ready for g has nothing older *)
G4a == \A r \in rdy : \A n \in Nodes : (r[2] = n /\ HasW /\ r[1] = Last.g /\ key[n] # 0 /\ (ReadyInc => r[3] = key[n]) /\ Run(n)) => ~Old(n, r[1])
G5 == bad \cap {"G5: a healthy member evicted", "G5: workers of a healthy member stopped for a lost lease", "G5: eviction deleted a newer incarnation",
                "G5: a member is lost that answered",
                "G5: workers stopped by a Hold for a member that is there"} = {}
G8a == \A k \in 1..Len(W) : W[k].ph = "done" => k = Len(W)
G8b == \A k \in 1..Len(W) : W[k].ph = "done" => \A x \in Range(W[k].mem) : RK(W[k].g,x[1],x[2]) \in exits
(* an ended attempt has a successor only by a new attempt; a stop asked of an attempt is not outlived by a new generation of it *)
G8c == \A k \in 1..Len(W) : (W[k].ph \in Ended /\ k < Len(W)) => W[k+1].att > W[k].att
(* a job that has not ended can be stopped and scaled *)
CanStop == EndedNow \/ WishOK
GenBound == HasW => Last.g < MaxGen
=============================================================================
