// Package scaling computes batch, accumulation and learning rate for a world
// size. It is pure, and it always starts from the base that the job was given,
// never from the last plan: any path to a world size gives the same plan.
//
// The base is a global batch and a learning rate at a base world (nodes times
// workers a node). In what follows B is that batch, W the base world, w the
// world at hand.
//
//	policy       global batch       learning rate      for
//	linear       floor(B*w/W)       LR * w/W           SGD; an unchanged script is right
//	sqrt         floor(B*w/W)       LR * sqrt(w/W)     adaptive optimizers
//	fixed-batch  B                  LR                 a result that does not depend on the world
//	table        as listed          as listed          sizes that were tuned one by one
//
// A cap (MaxBatch, MaxLR, MaxScale) refuses a world; it never bends a batch or a
// rate, because a bent plan would change the training without being asked to.
//
// The one thing that depends on the path is the warm-up: where a change raises the
// rate, Plan.WarmFrom has it climb over a number of samples.
//
// # The share of each rank
//
// Shares differ by at most one sample: a batch of n over w ranks gives rank r
// one more than n/w if r < n%w. A worker that walks its batch from its rank on
// in steps of the world size (r, r+w, r+2w, ...) takes exactly its share.
//
// Under linear and sqrt the batch per worker stays. A base batch that does not
// divide has workers of two sizes: 256 over 3 is 86, 85, 85. Another world
// takes the same average per worker, rounded down to whole samples over the
// whole world: 4 workers take floor(256*4/3) = 341 as 86, 85, 85, 85. So no
// worker ever takes more than the largest, or less than the smallest, of the
// base world. The rate follows the worlds, not the rounding, and has twelve
// digits.
//
// Under fixed-batch a step is GradAccum micro-batches of BatchSizes[r] samples
// on rank r, so that
//
//	sum(BatchSizes) * GradAccum == GlobalBatch
//
// exactly. No micro-batch is larger than the largest batch of the base world,
// ceil(B/W): what fitted into memory there fits here. GradAccum is the smallest
// number that allows it, and 1 in every world that is at least as large as the
// base. It must divide B, so some pairs of batch and world have no plan (97 over
// 3 where a worker took 25): ErrPlan, never an inexact step. Batches that are
// powers of two and leave a worker of the base two samples or more have a plan
// for every smaller world.
//
// # What the loss weight means
//
// Data-parallel frameworks average gradients over ranks: all-reduce SUM, then
// divide by w. With uneven shares that average is not the mean over the batch.
// It is, exactly, when rank r multiplies the mean loss of its own samples by
//
//	LossWeight(r) = BatchSizes[r] * w / sum(BatchSizes)
//
// (and divides by GradAccum, as usual with accumulation). The weights average to
// 1, and are exactly 1 where shares are even. A framework that sums over ranks
// without dividing needs LossWeight(r) / w.
package scaling
