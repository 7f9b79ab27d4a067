-------------------------------- MODULE Stay --------------------------------
(***************************************************************************)
(* Workers that stay in their process for the next world (section 11 of     *)
(* the protocol).                                                           *)
(*                                                                         *)
(* Elastic.tla has the job with workers that are ended.  Here the requests  *)
(* to the store are applied at once, and the words between an agent and its *)
(* worker are what is slow: a worker answers late, not at all, or twice,    *)
(* and may say that it holds a state that it has not.  Each node has one    *)
(* worker.  A state is the step that it has come to and the rollback that   *)
(* it comes after.  Every choice is a switch, and its wrong position must   *)
(* fail.                                                                    *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  (* bounds *)
  Nodes, MinNP, MaxGen, MaxStep, BCrash, BLie, BBack,
  (* choices *)
  ReadyWaits,   \* TRUE: Ready waits until the worker has left its generation, or has ended
  LeftOfNow,    \* TRUE: an answer to leave counts for its own generation alone
  SaveEnds,     \* TRUE: a worker says that it has left when no save of it is being written
  SetAside,     \* TRUE: before Ready what was saved and not committed is set aside
  Fence,        \* TRUE: Commit compares the fence
  RollbackEnds, \* TRUE: a worker whose state is of before a rollback is ended
  NewestGives,  \* TRUE: the rank with the largest step gives its state; FALSE: rank 0 does
  HeadCounts,   \* TRUE: states of less than the checkpoint of the world give way to it
  LatePrepare,  \* TRUE: a new process in place of one that stayed is brought the checkpoint first
  MissEnds      \* TRUE: a worker without a state, and without the checkpoint that the world has, ends

None == -1
NoWork == [g |-> 0, st |-> "none", met |-> FALSE, step |-> None, back |-> 0]
NoFile == [g |-> 0, step |-> None, back |-> 0]

VARIABLES
  world,   \* what the store has: the newest world
  mems,    \* the members of each generation
  head,    \* the newest checkpoint
  up,      \* the agents that are alive
  since,   \* the newest world when this agent came: worlds list incarnations, and it is in none of before
  seen,    \* the newest generation that each agent knows
  rdy,     \* the newest generation that each node reported Ready for
  told,    \* the generation that each worker was told to leave
  words,   \* answers of workers: <<node, generation>>. Each may be heard any time, and again
  paused,  \* the agent heard that its worker has left its generation
  brought, \* the checkpoint is on the disk of the node for rdy
  work,    \* in: it takes part in collectives of g. out: it has left g. met: it has the state of its world
  file,    \* what each worker saved last, as long as it may be committed
  bad,
  b        \* what the faults may still do

vars == <<world, mems, head, up, since, seen, rdy, told, words, paused, brought, work, file, bad, b>>

Min(S) == CHOOSE x \in S : \A y \in S : x <= y
Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Member(n) == n \in world.mem /\ world.g > since[n]
Zero(M) == CHOOSE n \in M : TRUE \* rank 0; TLC's choice is the same each time
Flag(name, cond) == IF cond THEN {name} ELSE {}

Init ==
  /\ world = [g |-> 1, mem |-> Nodes, ready |-> Nodes, runs |-> TRUE, back |-> 0]
  /\ mems = [g \in 1..MaxGen |-> IF g = 1 THEN Nodes ELSE {}]
  /\ head = [step |-> 0, back |-> 0]
  /\ up = [n \in Nodes |-> TRUE] /\ since = [n \in Nodes |-> 0]
  /\ seen = [n \in Nodes |-> 1] /\ rdy = seen /\ told = [n \in Nodes |-> 0]
  /\ words = {} /\ paused = [n \in Nodes |-> FALSE] /\ brought = [n \in Nodes |-> TRUE]
  /\ work = [n \in Nodes |-> [g |-> 1, st |-> "in", met |-> TRUE, step |-> 0, back |-> 0]]
  /\ file = [n \in Nodes |-> NoFile]
  /\ bad = {}
  /\ b = [crash |-> BCrash, lie |-> BLie, back |-> BBack]

(* The agents. *)

(* Why a generation is planned does not matter here. Back: the job goes back to its first checkpoint. *)
Propose(M, goesBack) ==
  /\ \E n \in Nodes : up[n] /\ seen[n] = world.g
  /\ world.g < MaxGen /\ Cardinality(M) >= MinNP /\ \A n \in M : up[n]
  /\ goesBack => b.back > 0 /\ head.step > 0
  /\ world' = [g |-> world.g + 1, mem |-> M, ready |-> {}, runs |-> FALSE,
               back |-> IF goesBack THEN world.g + 1 ELSE world.back]
  /\ mems' = [mems EXCEPT ![world.g + 1] = M]
  /\ head' = IF goesBack THEN [step |-> 0, back |-> world.g + 1] ELSE head
  /\ b' = IF goesBack THEN [b EXCEPT !.back = @ - 1] ELSE b
  /\ UNCHANGED <<up, since, seen, rdy, told, words, paused, brought, work, file, bad>>

See(n) ==
  /\ up[n] /\ seen[n] < world.g
  /\ seen' = [seen EXCEPT ![n] = world.g]
  /\ UNCHANGED <<world, mems, head, up, since, rdy, told, words, paused, brought, work, file, bad, b>>

Over(n) == up[n] /\ work[n].st # "none" /\ seen[n] = world.g /\ world.g > work[n].g
Stays(n) == Member(n) /\ ~(RollbackEnds /\ world.back > work[n].g)

TellLeave(n) ==
  /\ Over(n) /\ Stays(n) /\ work[n].st = "in" /\ told[n] < work[n].g
  /\ told' = [told EXCEPT ![n] = work[n].g]
  /\ UNCHANGED <<world, mems, head, up, since, seen, rdy, words, paused, brought, work, file, bad, b>>

Hear(n) ==
  /\ up[n] /\ work[n].st # "none" /\ ~paused[n]
  /\ \E w \in words : w[1] = n /\ (LeftOfNow => w[2] = work[n].g)
  /\ paused' = [paused EXCEPT ![n] = TRUE]
  /\ UNCHANGED <<world, mems, head, up, since, seen, rdy, told, words, brought, work, file, bad, b>>

(* Ended: it does not answer, it may not stay, or it breaks. *)
End(n) ==
  /\ Over(n)
  /\ work' = [work EXCEPT ![n] = NoWork] /\ paused' = [paused EXCEPT ![n] = FALSE]
  /\ UNCHANGED <<world, mems, head, up, since, seen, rdy, told, words, brought, file, bad, b>>

(* A worker that waits with a state as new as the checkpoint needs none on its node. One without a state may say that *)
(* it has one.                                                                                                       *)
Ready(n) ==
  LET w == work[n] IN
  /\ up[n] /\ seen[n] = world.g /\ Member(n) /\ ~world.runs /\ n \notin world.ready
  /\ \/ w.st = "none"
     \/ w.g < world.g /\ Stays(n) /\ (IF ReadyWaits THEN paused[n] ELSE told[n] = w.g)
  /\ \E lies \in BOOLEAN :
       /\ lies => b.lie > 0 /\ w.st # "none" /\ w.step = None
       /\ brought' = [brought EXCEPT ![n] = w.st = "none" \/ (w.step = None /\ ~lies) \/ (HeadCounts /\ w.step # None /\ w.step < head.step)]
       /\ b' = IF lies THEN [b EXCEPT !.lie = @ - 1] ELSE b
  /\ world' = [world EXCEPT !.ready = @ \cup {n}]
  /\ rdy' = [rdy EXCEPT ![n] = world.g]
  /\ file' = IF SetAside THEN [file EXCEPT ![n] = NoFile] ELSE file
  /\ UNCHANGED <<mems, head, up, since, seen, told, words, paused, work, bad>>

Run ==
  /\ ~world.runs /\ world.ready = world.mem
  /\ world' = [world EXCEPT !.runs = TRUE]
  /\ UNCHANGED <<mems, head, up, since, seen, rdy, told, words, paused, brought, work, file, bad, b>>

(* A worker that waits is handed the world; where none does a process is started. *)
Hand(n) ==
  LET w == work[n] IN
  /\ up[n] /\ seen[n] = world.g /\ Member(n) /\ world.runs /\ rdy[n] = world.g /\ w.g < world.g
  /\ w.st # "in"
  /\ work' = [work EXCEPT ![n] = [w EXCEPT !.g = world.g, !.st = "in", !.met = FALSE]]
  /\ brought' = [brought EXCEPT ![n] = @ \/ (w.st = "none" /\ LatePrepare)]
  /\ paused' = [paused EXCEPT ![n] = FALSE]
  /\ UNCHANGED <<world, mems, head, up, since, seen, rdy, told, words, file, bad, b>>

(* What the worker of rank 0 saved is committed for the generation that its node is in. *)
Commit(n) ==
  LET g == work[n].g
      f == file[n]
  IN
  /\ up[n] /\ f # NoFile /\ work[n].st # "none" /\ rdy[n] = g
  /\ Fence => g = world.g /\ world.runs
  /\ head' = [step |-> f.step, back |-> f.back]
  /\ file' = [file EXCEPT ![n] = NoFile]
  /\ bad' = bad \cup Flag("G2", g < world.g) \cup Flag("OTHER", f.g # g)
                \cup Flag("OLDER", f.back = head.back /\ f.step < head.step)
  /\ UNCHANGED <<world, mems, up, since, seen, rdy, told, words, paused, brought, work, b>>

(* The workers. *)

Leave(n) ==
  /\ work[n].st = "in" /\ told[n] = work[n].g
  /\ work' = [work EXCEPT ![n].st = "out"]
  /\ words' = words \cup {<<n, work[n].g>>}
  /\ UNCHANGED <<world, mems, head, up, since, seen, rdy, told, paused, brought, file, bad, b>>

(* All workers of a generation meet, and have one state: of the rank with the largest step, or the checkpoint. *)
Meet(g) ==
  LET M == mems[g]
      most == Max({work[n].step : n \in M})
      giver == IF NewestGives THEN CHOOSE n \in M : work[n].step = most ELSE Zero(M)
      loads == HeadCounts /\ most < head.step /\ \E n \in M : brought[n]
      from == IF g = world.g /\ loads THEN head
              ELSE IF work[giver].step # None THEN [step |-> work[giver].step, back |-> work[giver].back]
              ELSE IF \E n \in M : brought[n] THEN head
              ELSE [step |-> 0, back |-> head.back]
  IN
  /\ M # {} /\ \A n \in M : work[n].g = g /\ work[n].st = "in" /\ ~work[n].met
  /\ ~(MissEnds /\ most = None /\ \A n \in M : ~brought[n])
  /\ work' = [n \in Nodes |-> IF n \in M THEN [work[n] EXCEPT !.met = TRUE, !.step = from.step, !.back = from.back]
                              ELSE work[n]]
  /\ bad' = bad \cup Flag("LESS", g = world.g /\ from.back = head.back /\ from.step < head.step)
                \cup Flag("BACK", g = world.g /\ from.back < world.back)
                \cup Flag("G4", \E n \in M : rdy[n] > g)
  /\ UNCHANGED <<world, mems, head, up, since, seen, rdy, told, words, paused, brought, file, b>>

(* A worker that has neither a state nor a checkpoint to load ends; its node begins the next world with a new one. *)
Miss(n) ==
  /\ MissEnds /\ work[n].st = "in" /\ ~work[n].met /\ work[n].step = None /\ ~brought[n]
  /\ work' = [work EXCEPT ![n] = [NoWork EXCEPT !.g = work[n].g]]
  /\ UNCHANGED <<world, mems, head, up, since, seen, rdy, told, words, paused, brought, file, bad, b>>

(* A collective has all workers of a generation. It may be broken off when only some have its result. *)
Collective(g) ==
  LET M == mems[g] IN
  /\ M # {} /\ \A n \in M : work[n].g = g /\ work[n].st = "in" /\ work[n].met
  /\ Cardinality({work[n].step : n \in M}) = 1 /\ \A n \in M : work[n].step < MaxStep
  /\ \E T \in (SUBSET M) \ {{}} :
       work' = [n \in Nodes |-> IF n \in T THEN [work[n] EXCEPT !.step = @ + 1] ELSE work[n]]
  /\ bad' = bad \cup Flag("G4", \E n \in M : rdy[n] > g)
  /\ UNCHANGED <<world, mems, head, up, since, seen, rdy, told, words, paused, brought, file, b>>

Save(n) ==
  LET w == work[n] IN
  /\ w.g > 0 /\ n = Zero(mems[w.g]) /\ w.met /\ w.step # None
  /\ w.st = "in" \/ (w.st = "out" /\ ~SaveEnds)
  /\ file' = [file EXCEPT ![n] = [g |-> w.g, step |-> w.step, back |-> w.back]]
  /\ file' # file
  /\ UNCHANGED <<world, mems, head, up, since, seen, rdy, told, words, paused, brought, work, bad, b>>

(* Faults. *)

Crash(n) ==
  /\ up[n] /\ b.crash > 0
  /\ up' = [up EXCEPT ![n] = FALSE] /\ work' = [work EXCEPT ![n] = NoWork]
  /\ paused' = [paused EXCEPT ![n] = FALSE] /\ words' = {w \in words : w[1] # n}
  /\ file' = [file EXCEPT ![n] = NoFile] /\ b' = [b EXCEPT !.crash = @ - 1]
  /\ UNCHANGED <<world, mems, head, since, seen, rdy, told, brought, bad>>

Restart(n) ==
  /\ ~up[n]
  /\ up' = [up EXCEPT ![n] = TRUE] /\ since' = [since EXCEPT ![n] = world.g]
  /\ seen' = [seen EXCEPT ![n] = world.g] /\ rdy' = [rdy EXCEPT ![n] = 0]
  /\ UNCHANGED <<world, mems, head, told, words, paused, brought, work, file, bad, b>>

Next ==
  \/ \E M \in SUBSET Nodes, goesBack \in BOOLEAN : Propose(M, goesBack)
  \/ Run
  \/ \E g \in 1..MaxGen : Meet(g) \/ Collective(g)
  \/ \E n \in Nodes : See(n) \/ TellLeave(n) \/ Hear(n) \/ End(n) \/ Ready(n) \/ Hand(n) \/ Commit(n)
                      \/ Leave(n) \/ Miss(n) \/ Save(n) \/ Crash(n) \/ Restart(n)

Spec == Init /\ [][Next]_vars

(* No worker takes part in a collective of g after its node reported Ready for a newer generation. *)
Apart == "G4" \notin bad
(* Nothing counts for a generation that is over, or for another one than it was written in. *)
Counts == bad \cap {"G2", "OTHER", "OLDER"} = {}
(* No world begins with less than the newest checkpoint, or from a state that was given up. *)
Begins == bad \cap {"LESS", "BACK"} = {}
=============================================================================
