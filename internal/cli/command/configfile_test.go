package command_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/elasticd/elastic/internal/cli/command"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []command.ConfigEntry
	}{
		"empty":          {"", nil},
		"comments alone": {"# nothing\n", nil},
		"null":           {"---\n~\n", nil},
		"as written": {"np: 2:4\nlr: 1e-3\nmodule: yes\nmax_restarts: 010\n", []command.ConfigEntry{
			{Key: "np", Value: "2:4", Line: 1}, {Key: "lr", Value: "1e-3", Line: 2},
			{Key: "module", Value: "yes", Line: 3}, {Key: "max_restarts", Value: "010", Line: 4}}},
		"quoted, after a comment": {"# two nodes\n\n\"np\": '2' # not 3\n",
			[]command.ConfigEntry{{Key: "np", Value: "2", Line: 3}}},
		"lists": {"server: [a:2379, b:2379]\ngpus:\n- 0\n- 2\n", []command.ConfigEntry{
			{Key: "server", Value: "a:2379,b:2379", Line: 1}, {Key: "gpus", Value: "0,2", Line: 2}}},
		"an empty list": {"gpus: []\n", []command.ConfigEntry{{Key: "gpus", Line: 1}}},
		"twice": {"np: 1\nnp: 2\n",
			[]command.ConfigEntry{{Key: "np", Value: "1", Line: 1}, {Key: "np", Value: "2", Line: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := command.ParseConfig([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no value": {"np: 2\njob-id:\n", "elastic.yaml:2: job-id has no value"},
		"a word":   {"np\n", "elastic.yaml:1: lines of the form NAME: VALUE are expected"},
		"a list":   {"- np\n", "elastic.yaml:1: lines of the form NAME: VALUE are expected"},
		"a mapping": {"np: 1\nrun:\n  np: 2\n",
			"elastic.yaml:3: run: a value or a list of values is expected"},
		"nested lists": {"gpus: [[0]]\n", "elastic.yaml:1: gpus: a value or a list of values is expected"},
		"an alias": {"np: &n 2\nbase-np: *n\n",
			"elastic.yaml:2: base-np: a value or a list of values is expected"},
		"a key of lists": {"[a]: 1\n", "elastic.yaml:1: the name of a setting is a word"},
		"two documents":  {"np: 1\n---\nnp: 2\n", "elastic.yaml:2: only one document is read"},
		"not YAML":       {"np: [1\n", "elastic.yaml:1: did not find expected ',' or ']'"},
		"a tab":          {"np:\n\t- 1\n", "elastic.yaml:2: found character that cannot start any token"},
		"an escape":      {"\x1b[31m: 1\n", "elastic.yaml: control characters are not allowed"},
		"an unknown tag": {"np: !x {a: 1}\n", "elastic.yaml:1: np: a value or a list of values is expected"},
		"merged mappings": {"a: &a {np: 1}\n<<: *a\n",
			"elastic.yaml:1: a: a value or a list of values is expected"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := command.ParseConfig([]byte(c.text))
			if e, ok := errors.AsType[*command.ConfigError](err); !ok || e.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// Whatever the bytes are, there is a result or an *Error.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"np: 2:4\n", "gpus: [0, 1]\n", "a: &a 1\nb: *a\n", "- x\n", "\x00",
		"? {a: b}\n: c\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := command.ParseConfig(text)
		if _, ok := errors.AsType[*command.ConfigError](err); err != nil && !ok {
			t.Fatalf("%T: %v", err, err)
		}
		for _, e := range all {
			if e.Line < 1 {
				t.Fatalf("%+v", e)
			}
		}
	})
}
