package scaling

import (
	"math"
	"strconv"
	"strings"
)

// Row is the batch and rate of one world size with policy table.
type Row struct {
	Nodes int     `json:"nodes"`
	Batch int     `json:"batch"` // global
	LR    float64 `json:"lr"`    // 0 = not given
}

// ParseTable reads NODES:BATCH[:LR],… in rising order of nodes. Errors wrap ErrPlan.
func ParseTable(text string) ([]Row, error) {
	var rows []Row
	for _, entry := range strings.Split(text, ",") {
		parts := strings.Split(strings.TrimSpace(entry), ":")
		if len(parts) != 2 && len(parts) != 3 {
			return nil, planError("table entry %q: NODES:BATCH or NODES:BATCH:LR", entry)
		}
		var r Row
		var err error
		if r.Nodes, err = strconv.Atoi(parts[0]); err != nil {
			return nil, planError("table entry %q: %q is not a number of nodes", entry, parts[0])
		}
		if r.Batch, err = strconv.Atoi(parts[1]); err != nil {
			return nil, planError("table entry %q: %q is not a global batch", entry, parts[1])
		}
		if len(parts) == 3 {
			if r.LR, err = strconv.ParseFloat(parts[2], 64); err != nil {
				return nil, planError("table entry %q: %q is not a learning rate", entry, parts[2])
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// FormatTable is the inverse of ParseTable.
func FormatTable(rows []Row) string {
	entries := make([]string, len(rows))
	for i, r := range rows {
		entries[i] = strconv.Itoa(r.Nodes) + ":" + strconv.Itoa(r.Batch)
		if r.LR > 0 {
			entries[i] += ":" + strconv.FormatFloat(r.LR, 'g', -1, 64)
		}
	}
	return strings.Join(entries, ",")
}

func (b Base) validateTable() error {
	if b.Batch > 0 || b.LR > 0 {
		return planError("policy table takes batch and rate from the table alone")
	}
	if len(b.Table) == 0 {
		return planError("policy table without a table")
	}
	for i, r := range b.Table {
		switch {
		case r.Nodes < 1 || r.Nodes > MaxWorld/b.Slots:
			return planError("table: %d nodes x %d workers: between 1 and %d workers",
				r.Nodes, b.Slots, MaxWorld)
		case i > 0 && r.Nodes <= b.Table[i-1].Nodes:
			return planError("table: %d nodes after %d: the sizes must rise", r.Nodes, b.Table[i-1].Nodes)
		case r.Batch > MaxBatch:
			return planError("table: batch %d: at most %d samples", r.Batch, MaxBatch)
		case r.Batch < r.Nodes*b.Slots:
			return planError("table: batch %d is smaller than the world of %d nodes x %d workers",
				r.Batch, r.Nodes, b.Slots)
		case r.LR < 0 || math.IsNaN(r.LR) || math.IsInf(r.LR, 0):
			return planError("table: learning rate %v: a finite number above 0", r.LR)
		case (r.LR == 0) != (b.Table[0].LR == 0):
			return planError("table: every size has a learning rate, or none has")
		}
	}
	if b.row(b.world()) == nil {
		return planError("the table has no entry for the base of %d nodes, only for %s",
			b.Nodes, b.tableSizes())
	}
	return nil
}

// row returns the entry for a world, nil if there is none.
func (b Base) row(world int) *Row {
	for i, r := range b.Table {
		if r.Nodes*b.Slots == world {
			return &b.Table[i]
		}
	}
	return nil
}

func (b Base) tableSizes() string {
	sizes := make([]string, len(b.Table))
	for i, r := range b.Table {
		sizes[i] = strconv.Itoa(r.Nodes)
	}
	return strings.Join(sizes, ", ")
}

// tableScale returns the rate of a world divided by that of the base world. It is 1 without rates.
func (b Base) tableScale(world int) float64 {
	at, base := b.row(world), b.row(b.world())
	if at == nil || base == nil || base.LR == 0 {
		return 1
	}
	return twelveDigits(at.LR / base.LR)
}

func (p *Plan) fromTable(b Base, world int) error {
	r := b.row(world)
	if r == nil {
		return planError("the table has no entry for a world of %d workers (%d a node), only for %s nodes",
			world, b.Slots, b.tableSizes())
	}
	p.GlobalBatch, p.GradAccum, p.LR = r.Batch, 1, r.LR
	p.BatchSizes = split(r.Batch, world)
	return nil
}
