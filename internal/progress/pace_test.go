package progress

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A worker trains 990 samples a second and reports them once a second. Whatever the moments at
// which its progress file is read, also just after a line, the rate is 990.
func TestRateDoesNotDependOnWhenTheFileIsRead(t *testing.T) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, reads := range map[string][]time.Duration{
		"every two seconds":           {0, 2000, 4000, 6000, 8000},
		"just before and after lines": {990, 3010, 4990, 7010, 8990},
		"once more at the end":        {0, 2000, 4000, 6000, 7100},
	} {
		path := filepath.Join(t.TempDir(), "progress.jsonl")
		tail, wrote := Tail{path: path}, 0
		for _, at := range reads {
			for ; time.Duration(wrote)*1000 <= at; wrote++ {
				report(t, path, start.Add(time.Duration(wrote)*time.Second), wrote*990)
			}
			p, ok := tail.Read()
			if !ok {
				t.Fatalf("%s: nothing read at %d ms", name, at)
			}
			if p.SamplesPerSecond != nil && (*p.SamplesPerSecond < 989 || *p.SamplesPerSecond > 991) {
				t.Errorf("%s: %.0f samples/s at %d ms, want 990", name, *p.SamplesPerSecond, at)
			}
			if want := start.Add(time.Duration(wrote-1) * time.Second); !p.Time.Equal(want) {
				t.Errorf("%s: the newest line is of %s, want %s", name, p.Time, want)
			}
		}
		p := tail.last
		if p.SamplesPerSecond == nil || p.Interval == nil || time.Duration(*p.Interval) != time.Second {
			t.Errorf("%s: rate %v, interval %v at the end", name, p.SamplesPerSecond, p.Interval)
		}
	}
}

func TestRateIsTakenAnewWhenSamplesAreCountedAnew(t *testing.T) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "progress.jsonl")
	tail := Tail{path: path}
	for i, samples := range []int{0, 3000, 100, 3100} {
		report(t, path, start.Add(time.Duration(i)*3*time.Second), samples)
		tail.Read()
		if i == 2 && tail.last.SamplesPerSecond != nil {
			t.Errorf("rate %v after the samples fell", *tail.last.SamplesPerSecond)
		}
	}
	if r := tail.last.SamplesPerSecond; r == nil || *r != 1000 {
		t.Errorf("rate %v, want 1000", r)
	}
}

// The usual time of a step is known from the second read on, however short it came after the first.
func TestTwoReadsGiveTheUsualTimeOfAStep(t *testing.T) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "progress.jsonl")
	tail := Tail{path: path}
	for i, written := range []int{10, 20} {
		for n := written - 10; n < written; n++ {
			report(t, path, start.Add(time.Duration(n)*time.Second/10), n)
		}
		p, _ := tail.Read()
		switch known := p.Interval != nil; {
		case i == 0 && known:
			t.Errorf("interval %v after one read", *p.Interval)
		case i == 1 && (!known || time.Duration(*p.Interval) != time.Second/10):
			t.Errorf("interval %v after a second of steps", p.Interval)
		case p.SamplesPerSecond != nil:
			t.Errorf("a rate of %v from one second", *p.SamplesPerSecond)
		}
	}
}

// report appends one line, written at that time.
func report(t *testing.T, path string, at time.Time, samples int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(f, "{\"step\":%d,\"samples\":%d}\n", samples/10, samples)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}
