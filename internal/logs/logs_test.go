package logs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func header(generation, rank int) string {
	return fmt.Sprintf(
		"---- elastic: generation %d, rank %d, world size 4, node b, job x, 2026-11-21T12:03:17.310Z ----\n",
		generation, rank)
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func gather(t *testing.T, dir string, q Query) []string {
	t.Helper()
	got := []string{}
	err := Read(t.Context(), dir, q, func(l Line) error {
		got = append(got, fmt.Sprintf("g%d r%d %s", l.Generation, l.Rank, l.Text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"workerlog.0.9":   header(1, 0) + "nine\n",
		"workerlog.0.10":  header(1, 0) + "one\n" + header(2, 2) + "two\n",
		"workerlog.0":     "still two\n" + header(3, 0) + "three\nno end",
		"workerlog.1":     "of something else\n" + header(3, 1) + "three of one\n",
		"workerlog.1.err": header(3, 1) + "trouble\n",
		"workerlog.2":     strings.Replace(header(1, 5), "job x", "job y", 1) + "of another job\n",
		"workerlog.2.1":   header(4, 2) + "four, before another job ran here\n",
		"serverlog.0":     strings.Replace(header(3, 0), "rank 0", "server 2", 1) + "serves\n",
		"workerlog.3": "---- elastic: since generation 3, waiting worker, node b, job x, " +
			"2026-11-21T12:03:17.310Z ----\nwaits\n",
		"endpoints.log": "PADDLE_TRAINER_ENDPOINTS: \n",
	})
	for _, test := range []struct {
		q    Query
		want []string
	}{
		{Query{Job: "x", Generation: 3}, []string{"g3 r0 three", "g3 r0 no end", "g3 r1 three of one",
			"g3 r1 trouble", "g3 r-1 waits", "g3 r-1 serves"}},
		{Query{Job: "x", Generation: 2}, []string{"g2 r2 two", "g2 r2 still two"}},
		{Query{Job: "x", Generation: 3, Ranks: []int{1}}, []string{"g3 r1 three of one", "g3 r1 trouble"}},
		{Query{Job: "x", Generation: 3, Last: 1},
			[]string{"g3 r0 no end", "g3 r1 three of one", "g3 r1 trouble", "g3 r-1 waits", "g3 r-1 serves"}},
		{Query{Job: "x", Ranks: []int{0}},
			[]string{"g1 r0 nine", "g1 r0 one", "g3 r0 three", "g3 r0 no end"}},
		{Query{Job: "x", Generation: 4}, []string{"g4 r2 four, before another job ran here"}},
		{Query{Job: "x", Generation: 2, Since: time.Now().Add(time.Hour)}, []string{}},
		{Query{Job: "z"}, []string{}},
	} {
		if got := gather(t, dir, test.q); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%+v:\n%q, want\n%q", test.q, got, test.want)
		}
	}
}

// Lines have the times that the index beside their log says, here and from another node.
func TestTimes(t *testing.T) {
	dir := t.TempDir()
	text := map[string]string{"workerlog.0.1": header(1, 0) + "zero\n",
		"workerlog.0": header(2, 0) + "one\ntwo\n", "workerlog.1": header(2, 1) + "three\n"}
	write(t, dir, text)
	began := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for name, m := range map[string]struct{ offset, minute int }{
		"workerlog.0.1": {0, 0}, "workerlog.0": {len(header(2, 0) + "one\n"), 20}} {
		var x LineIndex
		x.Mark(filepath.Join(dir, name), 0, began.Add(time.Duration(m.minute/2)*time.Minute))
		if m.offset > 0 {
			x.Mark(filepath.Join(dir, name), int64(m.offset), began.Add(time.Duration(m.minute)*time.Minute))
		}
		x.Close()
	}
	s := httptest.NewServer(Handler(dir))
	defer s.Close()
	for want, q := range map[string]Query{
		"zero@0 one@10 two@20 three@-": {},
		"one@10 two@20 three@-":        {After: began.Add(time.Minute)},
		"two@20 three@-":               {After: began.Add(11 * time.Minute), Last: 2},
		"zero@0 one@10 three@-":        {Until: began.Add(15 * time.Minute)},
		"one@10 three@-":               {After: began.Add(time.Minute), Until: began.Add(15 * time.Minute)},
	} {
		q.Job = "x"
		for name, read := range map[string]func(context.Context, Query, func(Line) error) error{
			"here": func(ctx context.Context, q Query, emit func(Line) error) error {
				return Read(ctx, dir, q, emit)
			},
			"from a node": func(ctx context.Context, q Query, emit func(Line) error) error {
				return Fetch(ctx, direct{s.URL}, q, emit)
			},
		} {
			var got []string
			if err := read(t.Context(), q, func(l Line) error {
				at := "-"
				if !l.Time.IsZero() {
					at = fmt.Sprint(l.Time.Sub(began).Minutes())
				}
				got = append(got, l.Text+"@"+at)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(got, " "); text != want {
				t.Errorf("%s: %s, want %s", name, text, want)
			}
		}
	}
}

func TestLongLinesAreCut(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("x", 3*longestLine)
	write(t, dir, map[string]string{"workerlog.0": header(1, 0) + long + "\nafter\n"})
	got := gather(t, dir, Query{Job: "x"})
	if len(got) != 4+1 && len(got) != 4 || got[len(got)-1] != "g1 r0 after" ||
		strings.Count(strings.Join(got, ""), "x") != 3*longestLine {
		t.Errorf("%d lines", len(got))
	}
}

// A follower sees the last line of a log that is there, all added lines, also after a rotation, and
// workers that come later.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "workerlog.0")
	write(t, dir, map[string]string{"workerlog.0": header(1, 0) + "zero\none\n"})
	ctx, cancel := context.WithCancel(t.Context())
	lines := make(chan string)
	ended := make(chan error, 1)
	go func() {
		ended <- Read(ctx, dir, Query{Job: "x", Follow: true, Last: 1}, func(l Line) error {
			select {
			case lines <- l.Text:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	next := func(want string) {
		t.Helper()
		select {
		case got := <-lines:
			if got != want {
				t.Fatalf("%q, want %q", got, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("never: %q", want)
		}
	}
	next("one")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprint(f, "tw")
	fmt.Fprint(f, "o\n")
	next("two")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, "three\n")
	next("three")
	write(t, dir, map[string]string{"workerlog.0": header(2, 0) + "four\n"})
	next("four")
	write(t, dir, map[string]string{"workerlog.1": header(2, 1) + "five\nsix\n"})
	next("five")
	next("six")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// direct sends every request to one server.
type direct struct{ address string }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := url.Parse(d.address)
	if err != nil {
		return nil, err
	}
	r.URL.Scheme, r.URL.Host = to.Scheme, to.Host
	return http.DefaultTransport.RoundTrip(r)
}

func TestFetch(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"workerlog.0": header(1, 0) + "one\ntwo\n"})
	mux := http.NewServeMux()
	mux.Handle(Path, Handler(dir))
	s := httptest.NewServer(mux)
	defer s.Close()
	var got []string
	take := func(l Line) error { got = append(got, l.Node+" "+l.Text); return nil }
	if err := Fetch(t.Context(), direct{s.URL}, Query{Job: "x"}, take); err != nil {
		t.Fatal(err)
	}
	if want := []string{"b one", "b two"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	enough := errors.New("enough")
	if err := Fetch(t.Context(), direct{s.URL}, Query{Job: "x", Follow: true},
		func(Line) error { return enough }); !errors.Is(err, enough) {
		t.Error(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := Fetch(t.Context(), direct{s.URL}, Query{Job: "x"}, take); err == nil ||
		!strings.Contains(err.Error(), "list logs") {
		t.Error(err)
	}
}

// said is lines without times.
func said(of map[int][]string) map[int][]Said {
	all := map[int][]Said{}
	for rank, lines := range of {
		for _, text := range lines {
			all[rank] = append(all[rank], Said{Text: text})
		}
	}
	return all
}

func TestFold(t *testing.T) {
	for name, test := range map[string]struct {
		of   map[int][]string
		want []Folded
	}{
		"equal": {map[int][]string{0: {"a", "b"}, 1: {"a", "b"}, 2: {"a", "b"}},
			[]Folded{{Ranks: []int{0, 1, 2}, Text: "a"}, {Ranks: []int{0, 1, 2}, Text: "b"}}},
		"one rank says more": {map[int][]string{0: {"a", "loss 1", "b"}, 1: {"a", "b"}},
			[]Folded{{Ranks: []int{0, 1}, Text: "a"}, {Ranks: []int{0}, Text: "loss 1"}, {Ranks: []int{0, 1}, Text: "b"}}},
		"a later rank says more": {map[int][]string{0: {"a", "b"}, 1: {"a", "warning", "b"}},
			[]Folded{{Ranks: []int{0, 1}, Text: "a"}, {Ranks: []int{1}, Text: "warning"}, {Ranks: []int{0, 1}, Text: "b"}}},
		"nothing in common": {map[int][]string{0: {"a"}, 1: {"b"}},
			[]Folded{{Ranks: []int{0}, Text: "a"}, {Ranks: []int{1}, Text: "b"}}},
		"crossed lines keep each order": {map[int][]string{0: {"a", "b"}, 1: {"b", "a"}},
			[]Folded{{Ranks: []int{0}, Text: "a"}, {Ranks: []int{0, 1}, Text: "b"}, {Ranks: []int{1}, Text: "a"}}},
		"nothing": {map[int][]string{}, nil},
	} {
		if got := Fold(said(test.of)); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// Folding neither loses nor invents a line, and keeps the order of each rank.
func FuzzFold(f *testing.F) {
	f.Add("ab", "ba", "abc")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		of := map[int][]string{}
		for r, s := range []string{a, b, c} {
			of[r] = strings.Split(s[:min(len(s), 200)], "")
		}
		back := map[int][]string{}
		for _, line := range Fold(said(of)) {
			for _, r := range line.Ranks {
				back[r] = append(back[r], line.Text)
			}
		}
		for r, lines := range of {
			if strings.Join(back[r], "\x00") != strings.Join(lines, "\x00") {
				t.Errorf("rank %d: %q became %q", r, lines, back[r])
			}
		}
	})
}
