------------------------------- MODULE Behind -------------------------------
(***************************************************************************)
(* A store that forgets: it is wiped, or set back to an older copy, while   *)
(* the nodes of a job remember more (section 10 of the protocol).           *)
(*                                                                         *)
(* Elastic.tla has the job under crashes, cuts and slow requests with a     *)
(* store that keeps what it acknowledged.  Here the job is small - propose, *)
(* ready, run, save, commit - and the store is what fails.                  *)
(*                                                                         *)
(* A save is a number in the order in which the saves were made; 0 is none. *)
(* uid counts the jobs: the job made again has the next one.                *)
(* Propose and Commit lie in `net` between the read and the write.  Nodes   *)
(* that are slow, timers and limits are oracles.  Every choice is a switch, *)
(* and its wrong position must fail.                                        *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  (* bounds *)
  Nodes, MinNP, MaxGen, MaxSave, MaxUid,
  BWipe, BCopy, BSetBack, BCrash, BLoss,
  (* choices *)
  NoteFirst,   \* TRUE: the number of a generation is on the proposer's disk before Propose is sent
  ClaimStops,  \* TRUE: Propose and Commit compare that no claim is there
  LookLate,    \* TRUE: a node looks at its disk when its claim is in the store
  HighFence,   \* TRUE: its fence is the largest generation that was claimed
  Await,       \* "all" | "copies" | "any": which members of the newest world must have claimed; copies: fewer missing than copies
  KeepKnown,   \* TRUE: a commit that a claimant knows of is waited for
  SeeBehind    \* TRUE: a node that knows more than the store shows neither reports ready nor proposes

Copies == 2
NoWorld == [g |-> 0, id |-> 0, zero |-> {}, mem |-> {}, ready |-> {}, runs |-> FALSE]
NoClaim == [uid |-> 0, gen |-> 0, wg |-> 0, mem |-> {}, known |-> 0, looked |-> FALSE, newest |-> 0]
Lost == [uid |-> 0, fence |-> 0, world |-> NoWorld, head |-> 0, claims |-> [n \in Nodes |-> NoClaim]]
Newcomer == [uid |-> 0, gen |-> 0, noted |-> 0, wg |-> 0, id |-> 0, mem |-> {}, known |-> 0]

VARIABLES
  store,  \* what etcd holds
  copy,   \* the backup of it
  net,    \* requests on their way
  up,     \* the agents that are alive
  since,  \* the newest world when this agent came: worlds list incarnations, and it is in none of before
  mem,    \* what each node remembers, on its disk
  disk,   \* the saves on each node's disk
  peek,   \* what a node saw when it looked too early (LookLate=FALSE)
  work,   \* the world that the workers of each node run
  made,   \* saves that were made
  acked,  \* the newest commit that a node has noted
  given,  \* <<generation, id>> of each world that was proposed; no two proposals have one id
  ran,    \* those that ran
  bad,
  b       \* what the faults may still do

vars == <<store, copy, net, up, since, mem, disk, peek, work, made, acked, given, ran, bad, b>>

Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Newest(n) == Max({0} \cup disk[n])
Claimants == {n \in Nodes : store.claims[n].uid # 0}
Up == {n \in Nodes : up[n]}

(* The store shows less than node n remembers. *)
Behind(n) ==
  /\ mem[n].uid # 0
  /\ \/ store.uid < mem[n].uid
     \/ /\ store.uid = mem[n].uid
        /\ \/ store.fence < mem[n].gen
           \/ store.head < mem[n].known
           \/ store.world.g = mem[n].wg /\ mem[n].wg > 0 /\ store.world.id # mem[n].id
           \/ store.world.id = work[n].id /\ work[n].runs /\ ~store.world.runs
Sees(n) == up[n] /\ store.uid # 0 /\ ~(SeeBehind /\ Behind(n))
Member(n) == n \in store.world.mem /\ store.world.id > since[n]

(* All nodes run in the first world.  The backup is of that moment, unless Backup makes a newer one. *)
First == [g |-> 1, id |-> 1, zero |-> Nodes, mem |-> Nodes, ready |-> Nodes, runs |-> TRUE]

Init ==
  /\ store = [Lost EXCEPT !.uid = 1, !.fence = 1, !.world = First]
  /\ copy = store
  /\ net = {}
  /\ up = [n \in Nodes |-> TRUE] /\ since = [n \in Nodes |-> 0]
  /\ mem = [n \in Nodes |-> [uid |-> 1, gen |-> 1, noted |-> 1, wg |-> 1, id |-> 1, mem |-> Nodes, known |-> 0]]
  /\ disk = [n \in Nodes |-> {}]
  /\ peek = [n \in Nodes |-> 0]
  /\ work = [n \in Nodes |-> First]
  /\ made = 0 /\ acked = 0
  /\ given = {<<1, 1>>} /\ ran = given /\ bad = {}
  /\ b = [wipe |-> BWipe, copy |-> BCopy, back |-> BSetBack, crash |-> BCrash, loss |-> BLoss]

(* The job as it goes on. *)

(* Why a generation is planned does not matter here. *)
Propose(n) ==
  /\ Sees(n) /\ ~\E r \in net : r.n = n
  /\ ClaimStops => Claimants = {}
  /\ \E M \in SUBSET Up :
       /\ n \in M /\ Cardinality(M) >= MinNP
       /\ LET g == 1 + Max({store.fence} \cup {mem[m].noted : m \in M}) IN
          /\ g <= MaxGen
          /\ net' = net \cup {[t |-> "prop", n |-> n, uid |-> store.uid, fence |-> store.fence, head |-> store.head,
                               g |-> g, mem |-> M, save |-> 0]}
          /\ mem' = IF NoteFirst THEN [mem EXCEPT ![n].noted = g] ELSE mem
  /\ UNCHANGED <<store, copy, up, since, disk, peek, work, made, acked, given, ran, bad, b>>

Ready(n) ==
  /\ Sees(n) /\ Member(n) /\ n \notin store.world.ready /\ ~store.world.runs
  /\ store.head = 0 \/ \E m \in Up : store.head \in disk[m]
  /\ disk' = [disk EXCEPT ![n] = @ \cup ({store.head} \ {0})]
  /\ mem' = [mem EXCEPT ![n] = [uid |-> store.uid, gen |-> store.world.g, noted |-> Max({@.noted, store.world.g}), wg |-> store.world.g,
                                id |-> store.world.id, mem |-> store.world.mem, known |-> store.head]]
  /\ work' = [work EXCEPT ![n] = NoWorld]
  /\ store' = [store EXCEPT !.world.ready = @ \cup {n}]
  /\ UNCHANGED <<copy, net, up, since, peek, made, acked, given, ran, bad, b>>

(* The workers of a world begin together, from the head.  Those that run in it already, because the store was set back *)
(* to a moment before, do not begin.                                                                                 *)
Run ==
  LET w == store.world
      begin == {n \in Nodes : Member(n) /\ Sees(n) /\ work[n].id # w.id}
  IN
  /\ w.g > 0 /\ ~w.runs /\ w.ready = w.mem
  /\ \E n \in Nodes : Member(n) /\ Sees(n)
  /\ store' = [store EXCEPT !.world.runs = TRUE]
  /\ work' = [n \in Nodes |-> IF n \in begin THEN [w EXCEPT !.runs = TRUE] ELSE work[n]]
  /\ ran' = IF begin = {} THEN ran ELSE ran \cup {<<w.g, w.id>>}
  /\ bad' = bad \cup (IF begin # {} /\ \E r \in ran : r[1] = w.g /\ r[2] # w.id THEN {"TW"} ELSE {})
                 \cup (IF begin # {} /\ store.head < acked THEN {"OL"} ELSE {})
  /\ UNCHANGED <<copy, net, up, since, mem, disk, peek, made, acked, given, b>>

(* Rank 0 saves, a second member has a copy, and the commit is sent.  Workers save also while the store is behind. *)
Save(n) ==
  /\ up[n] /\ work[n].runs /\ n \in work[n].zero /\ made < MaxSave /\ ~\E r \in net : r.n = n
  /\ \E m \in work[n].mem \ {n} :
       /\ up[m]
       /\ disk' = [disk EXCEPT ![n] = @ \cup {made + 1}, ![m] = @ \cup {made + 1}]
  /\ made' = made + 1
  /\ net' = net \cup {[t |-> "com", n |-> n, uid |-> mem[n].uid, fence |-> work[n].g, head |-> 0, g |-> work[n].g,
                       mem |-> work[n].mem, save |-> made + 1]}
  /\ UNCHANGED <<store, copy, up, since, mem, peek, work, acked, given, ran, bad, b>>

OK(r) ==
  /\ store.uid = r.uid /\ store.fence = r.fence
  /\ ClaimStops => Claimants = {}
  /\ r.t = "prop" => store.head = r.head
  /\ r.t = "com" => store.world.runs /\ store.head < r.save

Deliver(r) ==
  /\ net' = net \ {r}
  /\ IF ~OK(r) THEN UNCHANGED <<store, acked, given, bad, mem>>
     ELSE IF r.t = "prop"
     THEN /\ store' = [store EXCEPT !.fence = r.g, !.world = [NoWorld EXCEPT !.g = r.g, !.id = 1 + Cardinality(given), !.zero = {r.n},
                                                                    !.mem = r.mem]]
          /\ given' = given \cup {<<r.g, 1 + Cardinality(given)>>}
          /\ bad' = bad \cup (IF \E w \in given : w[1] = r.g THEN {"PT"} ELSE {})
          /\ UNCHANGED <<acked, mem>>
     ELSE /\ store' = [store EXCEPT !.head = r.save]
          /\ UNCHANGED <<acked, given, bad, mem>>
  /\ UNCHANGED <<copy, up, since, disk, peek, work, made, ran, b>>

(* A node notes the newest commit that it sees.  From then on it is acknowledged: if all nodes die with the store before, *)
(* the save is on two disks, and whether it was committed is not known.                                                *)
Note(n) ==
  /\ Sees(n) /\ store.uid = mem[n].uid
  /\ mem[n].known < store.head
  /\ mem' = [mem EXCEPT ![n].known = store.head]
  /\ acked' = Max({acked, store.head})
  /\ UNCHANGED <<store, copy, net, up, since, disk, peek, work, made, given, ran, bad, b>>

(* The store is behind. *)

Peek(n) ==
  /\ ~LookLate /\ up[n] /\ Behind(n) /\ store.claims[n].uid = 0 /\ peek[n] # Newest(n)
  /\ peek' = [peek EXCEPT ![n] = Newest(n)]
  /\ UNCHANGED <<store, copy, net, up, since, mem, disk, work, made, acked, given, ran, bad, b>>

(* A node that finds the store behind claims; one of the job that sees a claim joins it. *)
Claim(n) ==
  /\ up[n] /\ mem[n].uid # 0 /\ store.claims[n].uid = 0
  /\ Behind(n) \/ (Claimants # {} /\ mem[n].uid >= store.uid)
  /\ store' = [store EXCEPT !.claims[n] =
       [uid |-> mem[n].uid, gen |-> Max({mem[n].noted, store.fence}), wg |-> mem[n].wg, mem |-> mem[n].mem,
        known |-> Max({mem[n].known, store.head}), looked |-> ~LookLate, newest |-> IF LookLate THEN 0 ELSE peek[n]]]
  /\ UNCHANGED <<copy, net, up, since, mem, disk, peek, work, made, acked, given, ran, bad, b>>

Look(n) ==
  /\ up[n] /\ store.claims[n].uid # 0 /\ ~store.claims[n].looked
  /\ store' = [store EXCEPT !.claims[n].looked = TRUE, !.claims[n].newest = Newest(n)]
  /\ UNCHANGED <<copy, net, up, since, mem, disk, peek, work, made, acked, given, ran, bad, b>>

(* Anyone of them makes the job again, from the claims and from nothing else. *)
Remake ==
  LET uid == Max({store.claims[n].uid : n \in Claimants})
      C == {n \in Claimants : store.claims[n].looked}
      own == {n \in C : store.claims[n].uid = uid}
      wg == Max({store.claims[n].wg : n \in own})
      last == CHOOSE n \in own : store.claims[n].wg = wg
      missing == store.claims[last].mem \ C
      best == Max({store.claims[n].newest : n \in C})
      known == Max({store.claims[n].known : n \in C})
  IN
  /\ own # {}
  /\ CASE Await = "all" -> missing = {}
       [] Await = "copies" -> Cardinality(missing) < Copies
       [] OTHER -> TRUE
  /\ KeepKnown => best >= known
  /\ uid < MaxUid
  /\ store' = [Lost EXCEPT !.uid = uid + 1,
                           !.fence = IF HighFence THEN Max({store.claims[n].gen : n \in Claimants}) ELSE store.fence,
                           !.head = best]
  /\ UNCHANGED <<copy, net, up, since, mem, disk, peek, work, made, acked, given, ran, bad, b>>

(* Claimants that only joined go on when those that found the store behind are gone. *)
Withdraw(n) ==
  /\ up[n] /\ store.claims[n].uid # 0 /\ ~\E m \in Claimants : Behind(m)
  /\ store' = [store EXCEPT !.claims[n] = NoClaim]
  /\ UNCHANGED <<copy, net, up, since, mem, disk, peek, work, made, acked, given, ran, bad, b>>

(* Faults. *)

Backup ==
  /\ b.copy > 0 /\ copy # store /\ Claimants = {} /\ store.uid # 0
  /\ copy' = store /\ b' = [b EXCEPT !.copy = @ - 1]
  /\ UNCHANGED <<store, net, up, since, mem, disk, peek, work, made, acked, given, ran, bad>>

Wipe ==
  /\ b.wipe > 0 /\ store # Lost
  /\ store' = Lost /\ b' = [b EXCEPT !.wipe = @ - 1]
  /\ UNCHANGED <<copy, net, up, since, mem, disk, peek, work, made, acked, given, ran, bad>>

SetBack ==
  /\ b.back > 0 /\ store # copy
  /\ store' = copy /\ b' = [b EXCEPT !.back = @ - 1]
  /\ UNCHANGED <<copy, net, up, since, mem, disk, peek, work, made, acked, given, ran, bad>>

Crash(n) ==
  /\ up[n] /\ b.crash > 0
  /\ up' = [up EXCEPT ![n] = FALSE] /\ UNCHANGED since /\ work' = [work EXCEPT ![n] = NoWorld]
  /\ b' = [b EXCEPT !.crash = @ - 1]
  /\ UNCHANGED <<store, copy, net, mem, disk, peek, made, acked, given, ran, bad>>

LoseDisk(n) ==
  /\ ~up[n] /\ b.loss > 0
  /\ disk' = [disk EXCEPT ![n] = {}] /\ mem' = [mem EXCEPT ![n] = Newcomer]
  /\ b' = [b EXCEPT !.loss = @ - 1]
  /\ UNCHANGED <<store, copy, net, up, since, peek, work, made, acked, given, ran, bad>>

Lapse(n) ==
  /\ ~up[n] /\ store.claims[n].uid # 0
  /\ store' = [store EXCEPT !.claims[n] = NoClaim]
  /\ UNCHANGED <<copy, net, up, since, mem, disk, peek, work, made, acked, given, ran, bad, b>>

Restart(n) ==
  /\ ~up[n]
  /\ up' = [up EXCEPT ![n] = TRUE] /\ since' = [since EXCEPT ![n] = Cardinality(given)]
  /\ UNCHANGED <<store, copy, net, mem, disk, peek, work, made, acked, given, ran, bad, b>>

Next ==
  \/ Run \/ Remake \/ Backup \/ Wipe \/ SetBack
  \/ \E r \in net : Deliver(r)
  \/ \E n \in Nodes : Propose(n) \/ Ready(n) \/ Save(n) \/ Note(n) \/ Peek(n) \/ Claim(n) \/ Look(n) \/ Withdraw(n)
                      \/ Crash(n) \/ LoseDisk(n) \/ Lapse(n) \/ Restart(n)

Symmetric == Permutations(Nodes)

Spec == Init /\ [][Next]_vars

(* TW: two worlds of one generation ran.  OL: a world began from less than what was acknowledged. *)
Sound == "TW" \notin bad /\ "OL" \notin bad
(* A number is given once, not only run once. *)
Once == "PT" \notin bad
(* The head can be read somewhere. *)
Readable == store.head = 0 \/ \E n \in Nodes : store.head \in disk[n]
=============================================================================
