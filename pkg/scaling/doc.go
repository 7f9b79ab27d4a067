// Package scaling computes batch, accumulation and learning rate for a world
// size. It is pure. It computes a plan from the base of the job, and not from
// the plan before: every path to a world size gives the same plan.
//
// The base is a global batch and a learning rate at a base world (nodes times
// workers per node). Below, B is that batch, W the size of the base world, and
// w the size of the world to plan.
//
//	policy       global batch       learning rate      for
//	linear       floor(B*w/W)       LR * w/W           SGD; scripts need no change
//	sqrt         floor(B*w/W)       LR * sqrt(w/W)     adaptive optimizers
//	fixed-batch  B                  LR                 results that do not depend on the world
//
// Under linear and sqrt a world beyond MaxScale times the base is refused. Its batch
// is not reduced, because that would change the training without the user's consent.
//
// Only the warm-up depends on the path: if a change raises the rate,
// Plan.WarmFrom raises it gradually over a number of samples.
//
// # The share of each rank
//
// Shares differ by at most one sample: if n samples are split over w ranks,
// rank r gets n/w samples, and one more if r < n%w. A worker that reads the
// samples r, r+w, r+2w, ... of the batch takes exactly its share.
//
// With linear and sqrt the average batch per worker stays the same. If the base
// batch does not divide evenly, workers have two sizes: 256 over 3 is 86, 85,
// 85. In another world the global batch is rounded down to whole samples: 4
// workers take floor(256*4/3) = 341 as 86, 85, 85, 85. So no worker takes more
// than the largest share of the base world, or less than the smallest. The rate
// is computed from the world sizes, not from the rounded batch, and has twelve
// digits.
//
// With fixed-batch an optimizer step has GradAccum micro-batches of
// BatchSizes[r] samples on rank r, so that exactly
//
//	sum(BatchSizes) * GradAccum == GlobalBatch
//
// No micro-batch is larger than the largest share of the base world, ceil(B/W),
// so it fits into memory as it did there. GradAccum is the smallest number that
// allows this. It is 1 in every world that is at least as large as the base
// world. GradAccum must divide B, so some pairs of batch and world have no plan
// (97 over 3 if a worker took 25). They get ErrPlan, and never an inexact step.
// A batch has a plan for every smaller world if it is a power of two and gives
// each worker of the base world at least two samples.
//
// # What the loss weight means
//
// Data-parallel frameworks average gradients over ranks: all-reduce SUM, then
// divide by w. With uneven shares that average is not the mean over the batch.
// It is exactly that mean if rank r multiplies the mean loss of its samples by
//
//	LossWeight(r) = BatchSizes[r] * w / sum(BatchSizes)
//
// (and divides by GradAccum, as usual with accumulation). The weights average to
// 1, and are exactly 1 where shares are even. A framework that sums over ranks
// without dividing needs LossWeight(r) / w.
package scaling
